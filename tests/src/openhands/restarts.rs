//! An agent server that is killed, and one whose clock is a minute apart from that of our server.

use std::process::{Child, Command, Stdio};

use mcp_client::Client;
use serde_json::{Value, json};
use uuid::Uuid;

use super::tools::Gate;
use super::workspaces::TestDirectory;
use super::{
    add_agent, agent_server, call, call_with_id, client_with, wait_for_first_step, wait_for_state,
    wait_for_status,
};
use crate::harness::real::{OpenHands, openhands, openhands_command};
use crate::harness::{assert_contains, free_port, http_client, wait_until};

/// An agent server for one test. Ends with it.
struct OwnServer {
    real: OpenHands,
    command: Vec<String>,
    place: TestDirectory,
    child: Child,
}

impl OwnServer {
    /// Starts it, with the model of the common one; `None` without that.
    async fn start() -> Option<Self> {
        let (common, command) = (openhands()?, openhands_command()?);
        let real = OpenHands {
            url: format!("http://127.0.0.1:{}", free_port()),
            api_key: Uuid::new_v4().to_string(),
        };
        let place = TestDirectory::new();
        let child = spawn(&command, &real, &place);
        let own = Self {
            real,
            command,
            place,
            child,
        };
        own.wait_until_ready().await;
        let settings = agent_server(&common, "GET", "/api/settings", Value::Null).await;
        let llm = &settings["agent_settings"]["llm"];
        let llm = json!({"model": llm["model"], "base_url": llm["base_url"], "api_key": "none",
            "num_retries": 0, "reasoning_effort": "none"});
        add_agent(&own.real, "own", llm).await;
        Some(own)
    }

    async fn client(&self) -> Client {
        client_with(&self.real, &[("OPENHANDS_AGENT_PROFILE", "own")]).await
    }

    /// Kills it with SIGKILL.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    async fn start_again(&mut self) {
        self.child = spawn(&self.command, &self.real, &self.place);
        self.wait_until_ready().await;
    }

    async fn wait_until_ready(&self) {
        let url = format!("{}/ready", self.real.url);
        let is_ready = async || {
            let answer = http_client().get(&url).send().await;
            answer.is_ok_and(|answer| answer.status().is_success())
        };
        wait_until("the agent server", is_ready).await;
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(command: &[String], real: &OpenHands, place: &TestDirectory) -> Child {
    let (_, port) = real.url.rsplit_once(':').unwrap();
    let folders = [
        ("HOME", "home"),
        ("OH_WORKSPACE_PATH", "workspace"),
        ("OH_CONVERSATIONS_PATH", "conversations"),
        ("OH_BASH_EVENTS_DIR", "bash-events"),
    ];
    let folders = folders.map(|(name, folder)| {
        let folder = place.0.join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        (name, folder)
    });
    Command::new(&command[0])
        .args(&command[1..])
        .args(["--host", "127.0.0.1", "--port", port])
        .envs(folders)
        .env("OH_SESSION_API_KEYS_0", &real.api_key)
        .env("OH_SECRET_KEY", "0".repeat(48))
        .current_dir(&place.0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn killed_agent_server_loses_no_task_and_runs_nothing_that_was_not_allowed() {
    let Some(mut own) = OwnServer::start().await else {
        return;
    };
    let client = own.client().await;
    let gate = Gate::new();
    let runs = json!({"task": format!("RUN: {}; echo once >> log\nRUN: cat log", gate.pass()),
        "idempotency_key": "runs", "wait_seconds": 0});
    let asks = json!({"task": "RUN: echo x > made\nRUN: echo y > unseen", "confirm": "always"});
    let running = call(&client, "run_task", runs.clone()).await;
    let id = &running["task_id"];
    wait_for_first_step(&client, id).await;
    let asked = call(&client, "run_task", asks).await;
    assert_eq!(asked["status"], "waiting_for_confirmation", "{asked}");
    own.kill();
    own.start_again().await;
    // The step is lost, and its command may go on; the task and its key are not.
    let failed = wait_for_status(&client, id, "failed").await;
    assert_contains(&failed["error"], "restarted");
    assert_eq!(call(&client, "run_task", runs).await["task_id"], *id);
    gate.open();
    let resumed = call_with_id(&client, "resume_task", id).await;
    assert_eq!(resumed["status"], "finished", "{resumed}");
    // The question is the same one, and its answer allows nothing else.
    let id = &asked["task_id"];
    let status = wait_for_status(&client, id, "waiting_for_confirmation").await;
    assert_eq!(status["confirmation"], asked["confirmation"]);
    let accept = json!({"task_id": id, "accept": true,
        "confirmation_id": asked["confirmation"]["confirmation_id"]});
    let next = call(&client, "respond_confirmation", accept).await;
    assert_eq!(next["status"], "waiting_for_confirmation", "{next}");
    let changes = call_with_id(&client, "get_task_changes", id).await;
    assert_eq!(changes["changed_files"], json!(["A made"]), "{changes}");
    call_with_id(&client, "cancel_task", id).await;
}

/// A library that adds the variable `CLOCK_SHIFT` to the time of day.
const SHIFT: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, id, now);
    if (id == CLOCK_REALTIME) now->tv_sec += atoi(getenv("CLOCK_SHIFT"));
    return failed;
}
"#;

#[tokio::test]
async fn times_are_those_of_the_agent_server() {
    let Some(real) = openhands() else { return };
    let place = TestDirectory::new();
    let (source, library) = (place.0.join("shift.c"), place.0.join("shift.so"));
    std::fs::write(&source, SHIFT).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    assert!(built.unwrap().success());
    for shift in ["60", "-60"] {
        let shifted = [
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("CLOCK_SHIFT", shift),
        ];
        let client = client_with(&real, &shifted).await;
        let run = json!({"task": "RUN: sleep 2", "verify": "true", "max_seconds": 50});
        let run = call(&client, "run_task", run).await;
        assert_has!(run, {"status": "finished", "verified": true});
        let seconds = run["seconds"].as_u64().unwrap();
        assert!((2..50).contains(&seconds), "{run}");
        // Nor does the limit come a minute early or late.
        let run = json!({"task": "RUN: sleep 300", "max_seconds": 8, "wait_seconds": 0});
        let run = call(&client, "run_task", run).await;
        let id = &run["task_id"];
        let stopped = wait_for_state(&client, id, |state| state["status"] != "running").await;
        assert_contains(&stopped["error"], "reached its time limit");
        let seconds = stopped["seconds"].as_u64().unwrap();
        assert!((8..50).contains(&seconds), "{stopped}");
    }
}
