//! Stopping a task, by asking for it or by giving up on the call.

use std::time::{Duration, Instant};

use mcp_client::{Error, Options};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{both, call, client, run_task, until};

/// Whether a process with this argument runs; the agent server is on this machine.
fn runs(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines =
        processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| {
        line.split(|byte| *byte == 0)
            .any(|word| word == argument.as_bytes())
    })
}

async fn until_runs(argument: &str, expected: bool) {
    crate::harness::wait_until(argument, async || runs(argument) == expected).await;
}

/// Seconds that no other test sleeps.
fn unique() -> String {
    format!("600.{}", Uuid::new_v4().as_u128() % 1_000_000_000)
}

#[tokio::test]
async fn cancel_task_kills_the_command_within_a_second() {
    let mut took = Vec::new();
    for client in both().await {
        let seconds = unique();
        let task = json!({"task": format!("RUN: sleep {seconds}"), "wait_seconds": 0});
        let run = call(&client, "run_task", task).await;
        let id = json!({"task_id": run["task_id"]});
        until_runs(&seconds, true).await;
        let began = Instant::now();
        let cancelled = call(&client, "cancel_task", id.clone()).await;
        took.push(began.elapsed());
        let expected = json!({"task_id": run["task_id"], "status": "cancelled",
            "message": "It was stopped."});
        assert_eq!(cancelled, expected);
        until_runs(&seconds, false).await;
        let status = call(&client, "get_task_status", id.clone()).await;
        assert_eq!(status["status"], "cancelled");
        let again = call(&client, "cancel_task", id).await;
        assert_has!(again, {"message": "It was not running any more; nothing was changed."});
    }
    // The better one of two: other tests keep the machine busy.
    assert!(
        took.iter().min() < Some(&Duration::from_secs(1)),
        "{took:?}"
    );
}

#[tokio::test]
async fn a_finished_task_is_not_changed_by_cancelling() {
    let Some(client) = client().await else { return };
    let run = run_task(&client, "FINISH: all good").await;
    let id = json!({"task_id": run["task_id"]});
    let cancelled = call(&client, "cancel_task", id.clone()).await;
    assert_eq!(cancelled["status"], "finished");
    let result = call(&client, "get_task_result", id).await;
    assert_has!(result, {"status": "finished", "result": "all good"});
}

#[tokio::test]
async fn giving_up_on_the_call_stops_the_task() {
    let Some(client) = client().await else { return };
    let seconds = unique();
    let arguments = json!({"task": format!("RUN: sleep {seconds}"),
        "idempotency_key": Uuid::new_v4().to_string()});
    let patience = Options::default().timeout(Duration::from_secs(6));
    let gave_up = client
        .call_tool_with("run_task", &arguments, patience)
        .await;
    assert!(matches!(gave_up, Err(Error::Timeout { .. })), "{gave_up:?}");
    until_runs(&seconds, false).await;
    // The key finds the task without running it again.
    let found: Value = call(&client, "run_task", arguments).await;
    assert_eq!(found["status"], "cancelled", "{found}");
    until(&client, &found["task_id"], "cancelled").await;
    assert!(!runs(&seconds));
}
