//! Stopping a task: with `cancel_task`, or by cancelling the call.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use mcp_client::Options;
use serde_json::json;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::tools::{Fault, Gate, Proxy};
use super::workspaces::TestDirectory;
use super::{
    call, call_with_id, client, client_with, directory, run_task, server_with, start_task,
    wait_for_status,
};
use crate::harness::real::openhands;
use crate::harness::{assert_contains, assert_ends_with, wait_until};

const STOPPED: &str = "It was stopped, and none of its commands runs in its directory.";

/// The processes with this argument. The agent server is on this machine.
fn processes(argument: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let found = processes.filter(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| word == argument.as_bytes())
    });
    found
        .map(|process| process.file_name().into_string().unwrap())
        .collect()
}

fn runs(argument: &str) -> bool {
    !processes(argument).is_empty()
}

pub(super) async fn wait_until_runs(argument: &str, expected: bool) {
    wait_until(argument, async || runs(argument) == expected).await;
}

/// A number of seconds that no other test uses.
pub(super) fn unique_seconds() -> String {
    format!("600.{}", Uuid::new_v4().as_u128() % 1_000_000_000)
}

#[tokio::test]
async fn stop_starts_no_next_step_and_leaves_no_command_also_if_its_request_fails_once() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let client = client_with(&proxy.real, &[]).await;
    let faults = [Fault::NotSent, Fault::Refused(502), Fault::ResponseLost];
    for fault in faults.map(Some).into_iter().chain([None]) {
        let (own, background) = (unique_seconds(), unique_seconds());
        let task = format!("RUN: (sleep {background}; echo) & sleep {own}\nRUN: touch next");
        let run = start_task(&client, &task).await;
        let id = &run["task_id"];
        wait_until_runs(&own, true).await;
        if let Some(fault) = fault {
            proxy.fail("/interrupt HTTP", fault);
        }
        let cancelled = call_with_id(&client, "cancel_task", id).await;
        let expected = json!({"task_id": id, "status": "cancelled", "message": STOPPED});
        assert_eq!(cancelled, expected);
        match fault {
            Some(_) => assert!(!runs(&own) && !runs(&background), "{fault:?}"),
            None => {
                wait_until_runs(&own, false).await;
                wait_until_runs(&background, false).await;
            }
        }
        // The agent has time for what it must not do.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let directory = directory(&proxy.real, id).await;
        assert!(!directory.join("next").exists(), "{fault:?}");
        let status = call_with_id(&client, "get_task_status", id).await;
        assert_eq!(status["status"], "cancelled", "{fault:?}");
        let again = call_with_id(&client, "cancel_task", id).await;
        assert_has!(again, {"message": "It was not running any more; nothing was changed."});
    }
}

#[tokio::test]
async fn task_at_its_limit_leaves_no_command() {
    let Some(client) = client().await else { return };
    let [own, background, others] = [(); 3].map(|()| unique_seconds());
    let task = json!({"task": format!("RUN: (sleep {background}; echo) & sleep {own}"), "max_seconds": 4,
        "wait_seconds": 0});
    let run = call(&client, "run_task", task).await;
    let task = json!({"task": format!("RUN: (sleep {others}; echo) > /dev/null 2>&1 &\nRUN: true"),
        "max_iterations": 1});
    let stepped = call(&client, "run_task", task).await;
    assert_eq!(stepped["status"], "failed", "{stepped}");
    wait_for_status(&client, &run["task_id"], "failed").await;
    for argument in [own, background, others] {
        wait_until_runs(&argument, false).await;
    }
}

/// A program that ends well when it is interrupted, as many servers do.
fn polite(seconds: &str) -> String {
    let program = "exec(\"import time, sys\\ntry:\\n time.sleep(float(sys.argv[1]))\\nexcept KeyboardInterrupt: sys.exit(0)\")";
    format!("python3 -c '{program}' {seconds}")
}

#[tokio::test]
async fn rest_of_the_command_line_does_not_run_after_a_stop() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[]).await;
    let shared = format!("shared-{}", Uuid::new_v4().simple());
    for (before, after, workspace) in [
        ("", " && rm -f keep.txt; echo x > after.txt", json!(null)),
        ("", " && rm -f keep.txt; echo x > after.txt", json!(shared)),
        (
            "(",
            "; rm -f keep.txt; true); echo x > after.txt",
            json!(null),
        ),
        ("for i in 1 2 3; do ", "; rm -f keep.txt; done", json!(null)),
        ("cd /tmp; ", "; rm -f \"$OLDPWD/keep.txt\"", json!(null)),
        ("trap '' INT; ", "; rm -f keep.txt", json!(null)),
    ] {
        let seconds = unique_seconds();
        let line = format!("{before}{}{after}", polite(&seconds));
        let context = json!({"file": "keep.txt", "content": "k"});
        let run = json!({"task": format!("RUN: {line}\nRUN: rm -f keep.txt"), "context": context,
            "workspace": workspace, "wait_seconds": 0});
        let run = call(&client, "run_task", run).await;
        let id = &run["task_id"];
        wait_until_runs(&seconds, true).await;
        let cancelled = call_with_id(&client, "cancel_task", id).await;
        assert_has!(cancelled, {"status": "cancelled", "message": STOPPED});
        assert!(!runs(&seconds), "{line}");
        // The shell has time for what it must not do.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let directory = directory(&real, id).await;
        assert!(directory.join("keep.txt").exists(), "{line}");
        assert!(!directory.join("after.txt").exists(), "{line}");
        // The terminal works for the next run.
        if !before.starts_with("trap") {
            let next = json!({"task_id": id, "message": "RUN: echo $((41 + 1))"});
            let next = call(&client, "send_message", next).await;
            assert_has!(next, {"status": "finished", "last_output": "42"});
        }
    }
}

#[tokio::test]
async fn agent_takes_no_step_before_a_late_interrupt() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let (_server, client) = server_with(&proxy.real, &[]).await;
    let gate = Gate::new();
    // The commands of its loop end by themselves.
    let task = format!(
        "RUN: touch begun.txt; {}\nRUN: touch after.txt",
        gate.pass()
    );
    let run = call!(client, "run_task", {"task": task, "wait_seconds": 0});
    let id = &run["task_id"];
    let directory = directory(&proxy.real, id).await;
    wait_until("it has begun", async || {
        directory.join("begun.txt").exists()
    })
    .await;
    proxy.fail("/interrupt", Fault::Late);
    let cancelled = call_with_id(&client, "cancel_task", id).await;
    assert_has!(cancelled, {"status": "cancelled", "message": STOPPED});
    assert!(!directory.join("after.txt").exists());
    gate.open();
    let resumed = call_with_id(&client, "resume_task", id).await;
    assert_eq!(resumed["status"], "finished", "{resumed}");
    assert!(directory.join("after.txt").exists());
}

#[tokio::test]
async fn command_that_ignores_signals_is_killed_or_named() {
    let Some(real) = openhands() else { return };
    let shared = format!("shared-{}", Uuid::new_v4().simple());
    let place = TestDirectory::new();
    let linked = place.0.join("link");
    std::fs::create_dir(place.0.join("root")).unwrap();
    symlink(place.0.join("root"), &linked).unwrap();
    let linked = [("OPENHANDS_WORKSPACE_ROOT", linked.to_str().unwrap())];
    let others = unique_seconds();
    for (options, workspace) in [
        (&linked[..0], json!(null)),
        (&linked[..], json!(null)),
        (&linked[..0], json!(shared)),
    ] {
        let client = client_with(&real, options).await;
        let seconds = unique_seconds();
        let task = format!("RUN: bash -c 'trap \"\" INT TERM HUP; sleep {seconds}; true'");
        let run = json!({"task": task, "workspace": workspace, "wait_seconds": 0});
        let run = call(&client, "run_task", run).await;
        wait_until_runs(&seconds, true).await;
        // A task that runs in the same directory, whose commands look like those of this one.
        let mut other = json!(null);
        if !workspace.is_null() {
            let task = json!({"task": format!("RUN: sleep {others}"), "workspace": workspace, "wait_seconds": 0});
            other = call(&client, "run_task", task).await;
            wait_until_runs(&others, true).await;
        }
        let cancelled = call_with_id(&client, "cancel_task", &run["task_id"]).await;
        assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
        if workspace.is_null() {
            assert_ends_with(
                &cancelled["message"],
                "none of its commands runs in its directory.",
            );
            assert!(!runs(&seconds));
            continue;
        }
        // Commands of others may run there.
        assert_contains(&cancelled["message"], "commands still run in its directory");
        assert_contains(&cancelled["message"], "sleep");
        assert_contains(&cancelled["message"], "the rest may have run");
        assert!(runs(&others));
        call_with_id(&client, "cancel_task", &other["task_id"]).await;
        for process in processes(&seconds) {
            let killed = Command::new("kill").args(["-9", &process]).status();
            assert!(killed.unwrap().success());
        }
    }
}

#[tokio::test]
async fn ended_task_is_cleared_of_its_processes_but_not_of_the_programs_of_a_person() {
    let Some(client) = client().await else { return };
    let [own, away, persons] = [(); 3].map(|()| unique_seconds());
    // One of them has left the directory.
    let task = format!(
        "RUN: (trap '' HUP; exec sleep {own}) > /dev/null 2>&1 & (cd /; exec sleep {away}) > /dev/null 2>&1 &"
    );
    let run = run_task(&client, &task).await;
    assert_eq!(run["status"], "finished", "{run}");
    wait_until_runs(&own, true).await;
    wait_until_runs(&away, true).await;
    // A shell with a terminal of its own, and a program in it.
    let work = format!(
        "cd '{}'; sleep {persons}; true",
        run["directory"].as_str().unwrap()
    );
    let mut person = Command::new("script")
        .args(["-qfc", &work, "/dev/null"])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_until_runs(&persons, true).await;
    let id = &run["task_id"];
    let cancelled = call_with_id(&client, "cancel_task", id).await;
    let message = "It was not running any more, but had left commands in its directory, which were ended: sleep, sleep.";
    assert_has!(cancelled, {"status": "finished", "message": message});
    assert!(!runs(&own) && !runs(&away) && runs(&persons));
    let again = json!({"task_id": id, "message": task});
    assert_eq!(
        call(&client, "send_message", again).await["status"],
        "finished"
    );
    wait_until_runs(&own, true).await;
    call!(client, "delete_task", {"task_id": id, "confirm": id});
    assert!(!runs(&own) && !runs(&away) && runs(&persons));
    person.kill().unwrap();
    person.wait().unwrap();
}

#[tokio::test]
async fn cancelled_call_stops_the_task_also_where_the_agent_server_is_away() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let (server, client) = server_with(&proxy.real, &[]).await;
    let seconds = unique_seconds();
    let key = Uuid::new_v4().to_string();
    let arguments = |wait: u32| {
        json!({"task": format!("RUN: sleep {seconds}"),
        "idempotency_key": key, "wait_seconds": wait})
    };
    let started = call(&client, "run_task", arguments(0)).await;
    wait_until_runs(&seconds, true).await;
    let (sender, mut reports) = mpsc::channel(100);
    let (waiting, options) = (arguments(55), Options::default().progress(sender));
    let outage = async {
        assert!(reports.recv().await.is_some());
        proxy.disconnect();
    };
    // The call is cancelled, while it waits for the task.
    tokio::select! {
        ended = client.call_tool_with("run_task", &waiting, options) => panic!("{ended:?}"),
        () = outage => {}
    }
    // One attempt to stop it has failed.
    server.wait_for_log("cannot stop the task").await;
    assert!(runs(&seconds));
    proxy.reconnect();
    wait_until_runs(&seconds, false).await;
    wait_for_status(&client, &started["task_id"], "cancelled").await;
    // The key finds the task without running it again.
    let found = call(&client, "run_task", arguments(0)).await;
    assert_has!(found, {"task_id": started["task_id"], "status": "cancelled"});
    assert!(!runs(&seconds));
}

#[tokio::test]
async fn command_of_another_task_in_the_directory_goes_on() {
    let Some(client) = client().await else { return };
    let (own, others) = (unique_seconds(), unique_seconds());
    let first = start_task(&client, &format!("RUN: sleep {own}")).await;
    let id = &first["task_id"];
    wait_until_runs(&own, true).await;
    let run = json!({"task": format!("RUN: sleep {others}"), "workspace": id, "wait_seconds": 0});
    let second = call(&client, "run_task", run).await;
    wait_until_runs(&others, true).await;
    let cancelled = call_with_id(&client, "cancel_task", id).await;
    assert_contains(&cancelled["message"], "commands still run in its directory");
    wait_until_runs(&own, false).await;
    assert!(runs(&others));
    call_with_id(&client, "cancel_task", &second["task_id"]).await;
}
