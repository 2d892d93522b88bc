//! Idempotency keys: of many calls at once, one starts its task.

use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{agent_server, call_with_id, client_with, wait_for_status};
use crate::harness::assert_contains;
use crate::harness::real::openhands;

/// Calls with one key, over two servers.
const CALLS: usize = 20;

#[tokio::test]
async fn one_of_many_calls_with_a_key_starts_its_task_with_its_file() {
    let Some(real) = openhands() else { return };
    let limits = [("OPENHANDS_MAX_PARALLEL", "50")];
    let clients = [
        client_with(&real, &limits).await,
        client_with(&real, &limits).await,
    ];
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
    let path = format!(
        "/api/conversations/{}/events/search?source=user",
        id.as_str().unwrap()
    );
    wait_for_status(&clients[0], id, "finished").await;
    let result = call_with_id(&clients[0], "get_task_result", id).await;
    assert_eq!(result["last_output"], format!("{number} content {number}"));
    let events = agent_server(&real, "GET", &path, Value::Null).await;
    let is_prompt = |event: &&Value| event["kind"] == "MessageEvent";
    let prompts = events["items"].as_array().unwrap().iter().filter(is_prompt);
    assert_eq!(prompts.count(), 1, "{events}");
}
