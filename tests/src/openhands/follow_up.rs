//! Continuing a task: messages, pauses, copies, and its deletion.

use std::time::{Duration, Instant};

use serde_json::json;

use super::gate::Gate;
use super::{
    assert_error, both_transports, call, call_with_id, client, run_task, start_task, tool_error,
    wait_for_state, wait_for_status,
};
use crate::harness::assert_starts_with;

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
async fn pause_waits_for_the_end_of_the_step() {
    for client in both_transports().await {
        let run = start_task(&client, "RUN: sleep 4; echo one\nRUN: echo two").await;
        let id = &run["task_id"];
        wait_for_state(&client, id, |state| state["steps"] == 1).await;
        call_with_id(&client, "pause_task", id).await;
        let paused = wait_for_status(&client, id, "paused").await;
        assert_eq!(paused["steps"], 1);
        let result = call_with_id(&client, "get_task_result", id).await;
        assert_eq!(result["last_output"], "one");
        let again = call_with_id(&client, "pause_task", id).await;
        assert_eq!(again["message"], "It was not running; nothing was changed.");
        let resumed = call_with_id(&client, "resume_task", id).await;
        assert_has!(resumed, {"status": "finished", "last_output": "two"});
    }
}

#[tokio::test]
async fn pause_during_a_long_step_is_answered_at_once() {
    let Some(client) = client().await else { return };
    let gate = Gate::new();
    let run = start_task(&client, &format!("RUN: {}\nRUN: echo after", gate.pass())).await;
    let id = &run["task_id"];
    wait_for_state(&client, id, |state| state["steps"] == 1).await;
    // The gate opens only after the answer.
    let pausing = call_with_id(&client, "pause_task", id).await;
    assert_has!(pausing, {"message": "It pauses when the current step has ended."});
    gate.open();
    wait_for_status(&client, id, "paused").await;
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
async fn copy_has_the_history_and_leaves_the_original_alone() {
    let Some(client) = client().await else { return };
    let run = run_task(&client, "RUN: echo 1 > one").await;
    let fork = json!({"task_id": run["task_id"], "message": "RUN: cat one; pwd\nFINISH: copied"});
    let copy = call(&client, "fork_task", fork).await;
    assert_ne!(copy["task_id"], run["task_id"]);
    let ended = call_with_id(&client, "wait_task", &copy["task_id"]).await;
    assert_eq!(ended["result"], "copied", "{ended}");
    assert_starts_with(&ended["last_output"], "1\n/");
    // The usage of the copy is its own, so that its limits hold.
    let tokens = ended["tokens"].as_u64().unwrap();
    let first = call_with_id(&client, "get_task_result", &run["task_id"]).await;
    assert_has!(first, {"result": "done", "steps": 2});
    let silent = call!(client, "fork_task", {"task_id": run["task_id"]});
    let id = &silent["task_id"];
    assert_error!(client, "resume_task", {"task_id": id}, "no message yet");
    let later = call!(client, "send_message", {"task_id": id, "message": "RUN: cat one"});
    assert_has!(later, {"status": "finished", "last_output": "1"});
    assert_eq!(later["tokens"].as_u64(), Some(tokens), "{later}");
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
