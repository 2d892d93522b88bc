//! Continuing a task: messages, a stop, and its deletion.

use std::time::{Duration, Instant};

use serde_json::json;
use uuid::Uuid;

use super::gate::Gate;
use super::proxy::Proxy;
use super::{
    assert_error, both_transports, call, call_with_id, client, client_with, run_task, server_with,
    start_task, tool_error, wait_for_state,
};
use crate::harness::assert_starts_with;
use crate::harness::real::openhands;

#[tokio::test]
async fn finished_task_continues_with_its_history() {
    for client in both_transports().await {
        let run = run_task(&client, "RUN: x=5; echo $x > n").await;
        let id = &run["task_id"];
        let message = "RUN: cat n; echo $x\nFINISH: both";
        let more = call!(client, "send_message", {"task_id": id, "message": message});
        // The directory and the shell are the same.
        assert_has!(more, {"task_id": id, "status": "finished", "result": "both",
            "last_output": "5\n5", "steps": 4, "changed_files": ["A n"]});
    }
}

#[tokio::test]
async fn running_task_reads_a_message_before_its_next_step() {
    let Some(client) = client().await else { return };
    let run = start_task(&client, "RUN: sleep 5\nRUN: echo not this").await;
    let id = &run["task_id"];
    wait_for_state(&client, id, |state| state["steps"] == 1).await;
    let message = "RUN: echo but this\nSAY: read";
    let ended = call!(client, "send_message", {"task_id": id, "message": message});
    assert_has!(ended, {"status": "finished", "result": "read", "last_output": "but this"});
}

#[tokio::test]
async fn failed_task_continues_after_a_message() {
    let Some(client) = client().await else { return };
    let run = run_task(&client, "RUN: echo a\nHTTP: 500").await;
    assert_eq!(run["status"], "failed");
    let message = json!({"task_id": run["task_id"], "message": "FINISH: now it works"});
    let ended = call(&client, "send_message", message).await;
    assert_has!(ended, {"status": "finished", "result": "now it works"});
    assert!(ended.get("error").is_none(), "{ended}");
}

#[tokio::test]
async fn cancelled_task_can_be_resumed() {
    let Some(client) = client().await else { return };
    let run = start_task(&client, "RUN: sleep 60\nRUN: echo later").await;
    let id = &run["task_id"];
    wait_for_state(&client, id, |state| state["steps"] == 1).await;
    let cancelled = call_with_id(&client, "cancel_task", id).await;
    assert_eq!(cancelled["status"], "cancelled");
    let resumed = call_with_id(&client, "resume_task", id).await;
    assert_has!(resumed, {"status": "finished", "last_output": "later"});
}

#[tokio::test]
async fn finished_task_cannot_be_resumed() {
    let Some(client) = client().await else { return };
    let run = run_task(&client, "SAY: done").await;
    assert_error!(client, "resume_task", {"task_id": run["task_id"]}, "send_message");
}

#[tokio::test]
async fn wait_ends_with_the_task_and_its_timeout_changes_nothing() {
    for client in both_transports().await {
        let gate = Gate::new();
        let run = start_task(&client, &format!("RUN: {}; echo late", gate.pass())).await;
        let id = &run["task_id"];
        let timeout = mcp_client::Options::default().timeout(Duration::from_secs(1));
        let wait = json!({"task_id": id});
        let timed_out = client.call_tool_with("wait_task", &wait, timeout).await;
        assert!(timed_out.is_err());
        let short = call!(client, "wait_task", {"task_id": id, "wait_seconds": 0});
        assert_eq!(short["status"], "running", "{short}");
        gate.open();
        let ended = call(&client, "wait_task", wait).await;
        assert_has!(ended, {"status": "finished", "last_output": "late"});
    }
}

#[tokio::test]
async fn deletion_asks_first_and_stops_the_task() {
    for client in both_transports().await {
        let run = start_task(&client, "RUN: sleep 60").await;
        let id = &run["task_id"];
        wait_for_state(&client, id, |state| state["steps"] == 1).await;
        assert_error!(client, "delete_task", {"task_id": id}, "Nothing was done yet");
        let other = json!({"task_id": id, "confirm": "yes"});
        assert_error(&client, "delete_task", other, "Nothing was done").await;
        let began = Instant::now();
        let deleted = call!(client, "delete_task", {"task_id": id, "confirm": id});
        assert_eq!(deleted, json!({"task_id": id, "deleted": true}));
        // Without the interrupt it takes the agent server half a minute.
        let took = began.elapsed();
        assert!(took < Duration::from_secs(20), "{took:?}");
        let gone = tool_error!(client, "get_task_status", {"task_id": id});
        assert_starts_with(&gone, "There is no task");
    }
}

#[tokio::test]
async fn empty_messages_are_refused() {
    let Some(client) = client().await else { return };
    let run = run_task(&client, "SAY: a").await;
    let empty = tool_error!(client, "send_message", {"task_id": run["task_id"], "message": " "});
    assert_starts_with(&empty, "message must have");
}

#[tokio::test]
async fn one_call_waits_for_any_or_all_of_several_tasks() {
    let Some(client) = client().await else { return };
    let gate = Gate::new();
    let slow = start_task(&client, &format!("RUN: {}", gate.pass())).await["task_id"].clone();
    let fast = start_task(&client, "SAY: fast").await["task_id"].clone();
    let ids = json!([slow, fast]);
    let any = call!(client, "wait_task", {"task_ids": ids, "until": "any", "wait_seconds": 25});
    assert_has!(any["tasks"][0], {"task_id": slow, "status": "running"});
    assert_has!(any["tasks"][1], {"task_id": fast, "status": "finished", "result": "fast"});
    gate.open();
    let all = call!(client, "wait_task", {"task_ids": ids, "wait_seconds": 25});
    assert_has!(all["tasks"][0], {"task_id": slow, "status": "finished"});
    let unknown = call!(client, "wait_task", {"task_ids": [fast, Uuid::new_v4()]});
    assert_eq!(unknown["tasks"][0]["status"], "finished", "{unknown}");
    assert_starts_with(&unknown["tasks"][1]["error"], "There is no task");
    for wrong in [
        json!({}),
        json!({"task_id": fast, "task_ids": ids}),
        json!({"task_ids": []}),
    ] {
        assert_error(&client, "wait_task", wrong, "Give task_id, or task_ids").await;
    }
}

#[tokio::test]
async fn wait_is_as_long_as_a_call_may_take() {
    let Some(real) = openhands() else { return };
    let (_server, client) = server_with(&real, &[("MCP_CALL_TIMEOUT", "8")]).await;
    let gate = Gate::new();
    let starter = client_with(&real, &[]).await;
    let run = start_task(&starter, &format!("RUN: {}", gate.pass())).await;
    let began = Instant::now();
    let wait = json!({"task_id": run["task_id"], "wait_seconds": 600});
    let waited = call(&client, "wait_task", wait).await;
    assert_eq!(waited["status"], "running", "{waited}");
    assert!(began.elapsed() > Duration::from_secs(2));
    gate.open();
}

#[tokio::test]
async fn message_whose_answer_is_lost_is_delivered_once() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let client = client_with(&proxy.real, &[]).await;
    let run = run_task(&client, "SAY: first").await;
    proxy.lose_response("/events HTTP");
    let sent = call!(client, "send_message", {"task_id": run["task_id"], "message": "SAY: second",
        "wait_seconds": 25});
    assert_has!(sent, {"status": "finished", "result": "second"});
    let messages =
        call!(client, "get_task_events", {"task_id": run["task_id"], "kinds": ["message"]});
    let messages = messages["events"].as_array().unwrap().iter();
    let texts = messages.filter(|message| message["text"] == "user: SAY: second");
    assert_eq!(texts.count(), 1);
}
