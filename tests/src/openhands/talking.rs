//! Going on with a task: messages, pauses, copies, and its end.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::gate::Gate;
use super::{both, call, client, on, refusal, refuses, run_task, start_task, until, until_that};

#[tokio::test]
async fn a_finished_task_goes_on_with_what_it_knows() {
    for client in both().await {
        let run = run_task(&client, "RUN: x=5; echo $x > n").await;
        let id = &run["task_id"];
        let more = json!({"task_id": id, "message": "RUN: cat n; echo $x\nFINISH: both"});
        let more = call(&client, "send_message", more).await;
        // The same directory, and the same shell.
        let expected = json!({"task_id": id, "status": "finished", "result": "both",
            "last_output": "5\n5", "steps": 4, "changed_files": ["A n"]});
        assert_eq!(more, expected);
    }
}

#[tokio::test]
async fn a_running_task_hears_a_message_before_its_next_step() {
    let Some(client) = client().await else { return };
    let run = start_task(&client, "RUN: sleep 5\nRUN: echo not this").await;
    let id = &run["task_id"];
    until_that(&client, id, |state| state["steps"] == 1).await;
    let message = json!({"task_id": id, "message": "RUN: echo but this\nSAY: heard"});
    let told = call(&client, "send_message", message).await;
    assert_has!(told, {"status": "finished", "result": "heard", "last_output": "but this"});
}

#[tokio::test]
async fn a_failed_task_is_mended_with_a_message() {
    let Some(client) = client().await else { return };
    let run = run_task(&client, "RUN: echo a\nHTTP: 500").await;
    assert_eq!(run["status"], "failed");
    let message = json!({"task_id": run["task_id"], "message": "FINISH: now it works"});
    let told = call(&client, "send_message", message).await;
    assert_has!(told, {"status": "finished", "result": "now it works"});
    assert!(told.get("error").is_none(), "{told}");
}

#[tokio::test]
async fn a_pause_takes_the_step_under_way_to_its_end() {
    for client in both().await {
        let run = start_task(&client, "RUN: sleep 4; echo one\nRUN: echo two").await;
        let id = &run["task_id"];
        until_that(&client, id, |state| state["steps"] == 1).await;
        on(&client, "pause_task", id).await;
        let paused = until(&client, id, "paused").await;
        assert_eq!(paused["steps"], 1);
        let result = on(&client, "get_task_result", id).await;
        assert_eq!(result["last_output"], "one");
        let again = on(&client, "pause_task", id).await;
        assert_eq!(again["message"], "It was not running; nothing was changed.");
        let resumed = on(&client, "resume_task", id).await;
        assert_has!(resumed, {"status": "finished", "last_output": "two"});
    }
}

#[tokio::test]
async fn a_pause_of_a_long_step_is_answered_soon() {
    let Some(client) = client().await else { return };
    let gate = Gate::new();
    let task = format!("RUN: {}\nRUN: echo after", gate.pass());
    let run = start_task(&client, &task).await;
    let id = json!({"task_id": run["task_id"]});
    until_that(&client, &run["task_id"], |state| state["steps"] == 1).await;
    // The step does not end before it is answered.
    let pausing = call(&client, "pause_task", id).await;
    assert_has!(pausing, {"message": "It pauses when the current step has ended."});
    gate.open();
    until(&client, &run["task_id"], "paused").await;
}

#[tokio::test]
async fn a_cancelled_task_can_be_resumed() {
    let Some(client) = client().await else { return };
    let run = start_task(&client, "RUN: sleep 60\nRUN: echo later").await;
    let id = &run["task_id"];
    until_that(&client, id, |state| state["steps"] == 1).await;
    let cancelled = on(&client, "cancel_task", id).await;
    assert_eq!(cancelled["status"], "cancelled");
    let resumed = on(&client, "resume_task", id).await;
    assert_has!(resumed, {"status": "finished", "last_output": "later"});
}

#[tokio::test]
async fn a_finished_task_has_nothing_to_resume() {
    let Some(client) = client().await else { return };
    let run = run_task(&client, "SAY: done").await;
    refuses(
        &client,
        "resume_task",
        json!({"task_id": run["task_id"]}),
        "send_message",
    )
    .await;
}

#[tokio::test]
async fn a_wait_ends_with_the_task_and_giving_it_up_changes_nothing() {
    for client in both().await {
        let gate = Gate::new();
        let task = format!("RUN: {}; echo late", gate.pass());
        let run = start_task(&client, &task).await;
        let id = &run["task_id"];
        let patience = mcp_client::Options::default().timeout(Duration::from_secs(1));
        let wait = json!({"task_id": id});
        let gave_up = client.call_tool_with("wait_task", &wait, patience).await;
        assert!(gave_up.is_err());
        let short = call!(client, "wait_task", {"task_id": id, "wait_seconds": 0});
        assert_eq!(short["status"], "running", "{short}");
        gate.open();
        let ended = call(&client, "wait_task", wait).await;
        assert_has!(ended, {"status": "finished", "last_output": "late"});
    }
}

#[tokio::test]
async fn a_copy_knows_what_the_task_knew_and_goes_its_own_way() {
    let Some(client) = client().await else { return };
    let run = run_task(&client, "RUN: echo 1 > one").await;
    let fork = json!({"task_id": run["task_id"], "message": "RUN: cat one; pwd\nFINISH: copied"});
    let copy = call(&client, "fork_task", fork).await;
    assert_ne!(copy["task_id"], run["task_id"]);
    let ended = on(&client, "wait_task", &copy["task_id"]).await;
    assert_eq!(ended["result"], "copied", "{ended}");
    assert!(ended["last_output"].as_str().unwrap().starts_with("1\n/"));
    // The original is as it was.
    let first = on(&client, "get_task_result", &run["task_id"]).await;
    assert_has!(first, {"result": "done", "steps": 2});
}

#[tokio::test]
async fn deleting_asks_first_and_stops_what_runs() {
    for client in both().await {
        let run = start_task(&client, "RUN: sleep 60").await;
        let id = &run["task_id"];
        until_that(&client, id, |state| state["steps"] == 1).await;
        refuses(
            &client,
            "delete_task",
            json!({"task_id": id}),
            "Nothing was done yet",
        )
        .await;
        let other = json!({"task_id": id, "confirm": "yes"});
        refuses(&client, "delete_task", other, "Nothing was done").await;
        let began = Instant::now();
        let deleted = call!(client, "delete_task", {"task_id": id, "confirm": id});
        assert_eq!(deleted, json!({"task_id": id, "deleted": true}));
        // Without the interrupt it takes the agent server half a minute.
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
        let gone = refusal(&client, "get_task_status", json!({"task_id": id})).await;
        assert!(gone.starts_with("There is no task"), "{gone}");
    }
}

#[tokio::test]
async fn empty_messages_are_refused() {
    let Some(client) = client().await else { return };
    let run: Value = run_task(&client, "SAY: a").await;
    let refused = refusal!(client, "send_message", {"task_id": run["task_id"], "message": " "});
    assert!(refused.starts_with("message must have"), "{refused}");
}
