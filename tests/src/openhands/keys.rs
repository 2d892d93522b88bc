//! Idempotency keys: of many calls at once, one starts its task.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use super::gate::Gate;
use super::workspaces::TestDirectory;
use super::{
    agent_server, call, call_with_id, client_with, start_task, tool_error, wait_for_status,
};
use crate::harness::assert_contains;
use crate::harness::real::{OpenHands, openhands};

/// Calls with one key, over two servers.
const CALLS: usize = 20;

/// Starts 20 different tasks with one key, and asserts that one of them runs, with its own file.
async fn assert_one_winner(real: &OpenHands, limit: &str, hold: Option<Gate>) {
    let limits = [("OPENHANDS_MAX_PARALLEL", limit)];
    let clients = [
        client_with(real, &limits).await,
        client_with(real, &limits).await,
    ];
    if let Some(gate) = &hold {
        start_task(&clients[0], &format!("RUN: {}", gate.pass())).await;
    }
    let key = Uuid::new_v4().to_string();
    let calls = (0..CALLS).map(|number| {
        let arguments = json!({"task": format!("RUN: echo {number} $(cat f.txt)"),
            "context": {"file": "f.txt", "content": format!("content {number}")},
            "idempotency_key": key, "wait_seconds": 0});
        let client = &clients[number % 2];
        async move { client.call_tool("run_task", &arguments).await.unwrap() }
    });
    let mut winners = Vec::new();
    for (number, result) in join_all(calls).await.into_iter().enumerate() {
        if result.is_error {
            // On a busy machine the time of a call may be over before it knows the winner.
            assert_contains(&result.text(), "idempotency_key");
        } else {
            let run: Value = serde_json::from_str(&result.text()).unwrap();
            winners.push((number, run["task_id"].clone()));
        }
    }
    let [(number, id)] = winners.as_slice() else {
        panic!("{winners:?}");
    };
    drop(hold);
    let path = format!(
        "/api/conversations/{}/events/search?source=user",
        id.as_str().unwrap()
    );
    wait_for_status(&clients[0], id, "finished").await;
    let result = call_with_id(&clients[0], "get_task_result", id).await;
    assert_eq!(result["last_output"], format!("{number} content {number}"));
    let events = agent_server(real, "GET", &path, Value::Null).await;
    let is_prompt = |event: &&Value| event["kind"] == "MessageEvent";
    let prompts = events["items"].as_array().unwrap().iter().filter(is_prompt);
    assert_eq!(prompts.count(), 1, "{events}");
}

#[tokio::test]
async fn key_that_cannot_be_claimed_starts_nothing() {
    let Some(real) = openhands() else { return };
    let place = TestDirectory::new();
    std::fs::write(place.0.join(".mcp-claims"), "in the way").unwrap();
    let client = client_with(&real, &[("OPENHANDS_WORKSPACE_ROOT", place.path())]).await;
    let task = |key: Value| {
        json!({"task": "FINISH: ok", "idempotency_key": key,
        "context": {"file": "f.txt", "content": "x"}})
    };
    let key = json!(Uuid::new_v4().to_string());
    let error = tool_error(&client, "run_task", task(key.clone())).await;
    assert_contains(&error, ".mcp-claims");
    assert_contains(&error, "OPENHANDS_WORKSPACE_ROOT");
    let left: Vec<_> = std::fs::read_dir(&place.0).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let without = call(&client, "run_task", task(Value::Null)).await;
    assert_eq!(without["status"], "finished", "{without}");
    std::fs::remove_file(place.0.join(".mcp-claims")).unwrap();
    let again = call(&client, "run_task", task(key)).await;
    assert_eq!(again["status"], "finished", "{again}");
}

#[tokio::test]
async fn claim_that_is_not_renewed_ends_within_ten_seconds() {
    let Some(real) = openhands() else { return };
    let place = TestDirectory::new();
    let client = client_with(&real, &[("OPENHANDS_WORKSPACE_ROOT", place.path())]).await;
    let task = json!({"task": "FINISH: ok", "idempotency_key": Uuid::new_v4().to_string()});
    let run = call(&client, "run_task", task.clone()).await;
    let id = run["task_id"].as_str().unwrap();
    agent_server(
        &real,
        "DELETE",
        &format!("/api/conversations/{id}"),
        Value::Null,
    )
    .await;
    // As a server that was killed leaves it.
    let claim = format!("0123456789abcdef {}\n", Uuid::new_v4());
    std::fs::write(place.0.join(".mcp-claims").join(id), claim).unwrap();
    let error = tool_error(&client, "run_task", task.clone()).await;
    assert_contains(&error, "used for another task");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let again = call(&client, "run_task", task).await;
    assert_has!(again, {"status": "finished", "task_id": id});
}

#[tokio::test]
async fn one_of_many_calls_with_a_key_starts_its_task_with_its_file() {
    let Some(real) = openhands() else { return };
    assert_one_winner(&real, "50", None).await;
}

#[tokio::test]
async fn one_of_many_calls_with_a_key_queues_its_task_with_its_file() {
    let Some(real) = openhands() else { return };
    assert_one_winner(&real, "1", Some(Gate::new())).await;
}
