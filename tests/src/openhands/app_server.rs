//! Tasks behind a real V1 app server, whose sandboxes are processes: `cargo xtask nightly openhands-app`. A start
//! takes 15 s to a minute.

use std::time::Duration;

use mcp_client::Client;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{NAME, assert_error, call, call_with_id, start_task, tool_error, with};
use crate::harness::real::{OpenHands, openhands_app};
use crate::harness::{assert_contains, eventually, http_client, stdio_client};

const START_TIMEOUT: Duration = Duration::from_secs(180);

async fn client(real: &OpenHands) -> Client {
    let env = [
        ("OPENHANDS_URL", &*real.url),
        ("OPENHANDS_API_KEY", &*real.api_key),
        ("MCP_TOOLSETS", "all"),
        ("OPENHANDS_CALLBACK_HOSTS", "127.0.0.1:1"),
    ];
    stdio_client(NAME, &env).await
}

/// Waits with wait_task until the status of a task is one of `expected`.
async fn wait_until(client: &Client, id: &Value, expected: &[&str]) -> Value {
    let until = tokio::time::Instant::now() + START_TIMEOUT;
    loop {
        let wait = json!({"task_id": id, "wait_seconds": 25});
        let run = call(client, "wait_task", wait).await;
        if expected.contains(&run["status"].as_str().unwrap()) {
            return run;
        }
        assert!(tokio::time::Instant::now() < until, "{run}");
    }
}

/// The row of a task in the list.
async fn listed(client: &Client, id: &Value) -> Option<Value> {
    let list = call(client, "list_tasks", json!({})).await;
    let rows = list["tasks"].as_array().unwrap();
    rows.iter().find(|row| row["task_id"] == *id).cloned()
}

#[tokio::test]
async fn task_runs_in_its_sandbox_and_has_its_own_words_and_files() {
    let Some(real) = openhands_app() else { return };
    let client = client(&real).await;
    let task = "RUN: echo made > made.txt; echo hello-$((40+2))\nFINISH: It said hello.";
    let started = start_task(&client, task).await;
    let id = &started["task_id"];
    let row = listed(&client, id).await.unwrap();
    assert_eq!(row["status"], "queued", "{row}");
    assert_contains(&row["task"], "RUN: echo made");
    let run = wait_until(&client, id, &["finished", "failed"]).await;
    assert_has!(run, {"status": "finished", "result": "It said hello.",
        "last_output": "hello-42", "steps": 2});
    // Reading the changes runs scripts, which leave files in the sandbox.
    for _ in 0..2 {
        let changes = call_with_id(&client, "get_task_changes", id).await;
        assert_eq!(changes["changed_files"], json!(["A made.txt"]), "{changes}");
    }
    let row = listed(&client, id).await.unwrap();
    assert_eq!(row["status"], "finished", "{row}");
    assert_contains(&row["task"], "RUN: echo made");
    for (status, expected) in [("finished", true), ("failed", false)] {
        let list = call!(client, "list_tasks", {"status": status, "limit": 50});
        let mut rows = list["tasks"].as_array().unwrap().iter();
        assert_eq!(rows.any(|row| row["task_id"] == *id), expected, "{list}");
    }
    let more = json!({"task_id": id, "message": "RUN: cat made.txt\nFINISH: It is there."});
    call(&client, "send_message", more).await;
    let run = wait_until(&client, id, &["finished", "failed"]).await;
    assert_has!(run, {"result": "It is there.", "last_output": "made"});
    let deleted = json!({"task_id": id, "confirm": id});
    assert_eq!(call(&client, "delete_task", deleted).await["deleted"], true);
    assert_eq!(listed(&client, id).await, None);
}

#[tokio::test]
async fn task_that_is_starting_can_be_cancelled() {
    let Some(real) = openhands_app() else { return };
    let client = client(&real).await;
    let started = start_task(&client, "RUN: echo never").await;
    let id = &started["task_id"];
    let status = call_with_id(&client, "get_task_status", id).await;
    assert_eq!(status["status"], "queued", "{status}");
    let cancelled = call_with_id(&client, "cancel_task", id).await;
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    let status = call_with_id(&client, "get_task_status", id).await;
    assert_eq!(status["status"], "cancelled", "{status}");
    let row = listed(&client, id).await.unwrap();
    assert_eq!(row["status"], "cancelled", "{row}");
    // Another server knows only what the app server does: that it did not start, and why.
    let other = self::client(&real).await;
    let run = wait_until(&other, id, &["failed"]).await;
    assert_contains(&run["error"], "OpenHands could not start it: ");
}

#[tokio::test]
async fn task_that_is_starting_can_be_deleted() {
    let Some(real) = openhands_app() else { return };
    let client = client(&real).await;
    let started = start_task(&client, "RUN: echo never").await;
    let id = &started["task_id"];
    assert_error!(client, "delete_task", {"task_id": id}, "RUN: echo never");
    let deleted = json!({"task_id": id, "confirm": id});
    assert_eq!(call(&client, "delete_task", deleted).await["deleted"], true);
    assert_eq!(listed(&client, id).await, None);
    let error = tool_error!(client, "get_task_status", {"task_id": id});
    assert_contains(&error, "There is no task");
}

#[tokio::test]
async fn failed_start_says_its_reason_and_can_be_deleted() {
    let Some(real) = openhands_app() else { return };
    let client = client(&real).await;
    let started = start_task(&client, "RUN: echo never").await;
    let id = &started["task_id"];
    // Another client removes the sandbox, which has the name of the conversation.
    let sandbox = id.as_str().unwrap().replace('-', "");
    let url = format!(
        "{0}/api/v1/sandboxes/{sandbox}?sandbox_id={sandbox}",
        real.url
    );
    let removed = async || {
        let request = http_client().delete(&url);
        let request = request.header("X-Session-API-Key", &real.api_key);
        let status = request.send().await.unwrap().status();
        status.is_success().then_some(())
    };
    eventually("the sandbox", removed).await;
    let run = wait_until(&client, id, &["failed", "finished"]).await;
    assert_eq!(run["status"], "failed", "{run}");
    assert_contains(&run["error"], "OpenHands could not start it: ");
    let row = listed(&client, id).await.unwrap();
    assert_eq!(row["status"], "failed", "{row}");
    let deleted = json!({"task_id": id, "confirm": id});
    assert_eq!(call(&client, "delete_task", deleted).await["deleted"], true);
    assert_eq!(listed(&client, id).await, None);
}

#[tokio::test]
async fn one_task_has_a_key_and_what_is_not_possible_is_refused() {
    let Some(real) = openhands_app() else { return };
    let client = client(&real).await;
    let keyed = json!({"task": "SAY: once", "idempotency_key": Uuid::new_v4().to_string(),
        "wait_seconds": 0});
    let first = call(&client, "run_task", keyed.clone()).await["task_id"].clone();
    assert_eq!(
        call(&client, "run_task", keyed.clone()).await["task_id"],
        first
    );
    wait_until(&client, &first, &["finished"]).await;
    assert_eq!(call(&client, "run_task", keyed).await["task_id"], first);
    let task = |more| with(json!({"task": "t"}), more);
    for (tool, arguments) in [
        ("list_agent_profiles", json!({})),
        ("run_task", task(json!({"workspace": "w"}))),
        ("run_task", task(json!({"confirm": "always"}))),
        ("run_task", task(json!({"max_iterations": 5}))),
        ("run_task", task(json!({"agent": "reviewer"}))),
        (
            "run_task",
            task(json!({"context": {"file": "a", "content": "b"}})),
        ),
        (
            "run_task",
            task(json!({"context": {"repository": "https://h.test/r"}})),
        ),
        (
            "run_task",
            task(json!({"callback_url": "http://127.0.0.1:1/hook"})),
        ),
        (
            "send_message",
            json!({"task_id": first, "message": "m", "callback_url": "http://127.0.0.1:1/hook"}),
        ),
        (
            "resume_task",
            json!({"task_id": first, "callback_url": "http://127.0.0.1:1/hook"}),
        ),
    ] {
        let error = tool_error(&client, tool, arguments).await;
        assert_contains(&error, "OpenHands V1 app server");
        assert!(!error.contains('\n') && error.len() < 350, "{error}");
    }
}
