//! Going on with a task: messages, pauses, copies, and its end.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::gate::Gate;
use super::{both, call, child, refusal, start, until, until_that};
use crate::harness::assert_has;

#[tokio::test]
async fn a_finished_task_goes_on_with_what_it_knows() {
    let Some(both) = both().await else { return };
    for client in both.clients {
        let run = call(
            &client,
            "run_task",
            json!({"task": "RUN: x=5; echo $x > n"}),
        )
        .await;
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
    let Some(client) = child().await else { return };
    let id = &start(&client, "RUN: sleep 5\nRUN: echo not this").await;
    until_that(&client, id, |state| state["steps"] == 1).await;
    let message = json!({"task_id": id, "message": "RUN: echo but this\nSAY: heard"});
    let told = call(&client, "send_message", message).await;
    assert_has(
        &told,
        json!({"status": "finished", "result": "heard", "last_output": "but this"}),
    );
}

#[tokio::test]
async fn a_failed_task_is_mended_with_a_message() {
    let Some(client) = child().await else { return };
    let run = call(
        &client,
        "run_task",
        json!({"task": "RUN: echo a\nHTTP: 500"}),
    )
    .await;
    assert_eq!(run["status"], "failed");
    let message = json!({"task_id": run["task_id"], "message": "FINISH: now it works"});
    let told = call(&client, "send_message", message).await;
    assert_has(
        &told,
        json!({"status": "finished", "result": "now it works"}),
    );
    assert!(told.get("error").is_none(), "{told}");
}

#[tokio::test]
async fn a_pause_takes_the_step_under_way_to_its_end() {
    let Some(both) = both().await else { return };
    for client in both.clients {
        let task = json!({"task": "RUN: sleep 4; echo one\nRUN: echo two", "wait_seconds": 0});
        let run = call(&client, "run_task", task).await;
        let id = &run["task_id"];
        until_that(&client, id, |state| state["steps"] == 1).await;
        call(&client, "pause_task", json!({"task_id": id})).await;
        let paused = until(&client, id, "paused").await;
        assert_eq!(paused["steps"], 1);
        let result = call(&client, "get_task_result", json!({"task_id": id})).await;
        assert_eq!(result["last_output"], "one");
        let again = call(&client, "pause_task", json!({"task_id": id})).await;
        assert_eq!(again["message"], "It was not running; nothing was changed.");
        let resumed = call(&client, "resume_task", json!({"task_id": id})).await;
        assert_has(
            &resumed,
            json!({"status": "finished", "last_output": "two"}),
        );
    }
}

#[tokio::test]
async fn a_pause_of_a_long_step_is_answered_soon() {
    let Some(client) = child().await else { return };
    let gate = Gate::new();
    let task = format!("RUN: {}\nRUN: echo after", gate.pass());
    let task = json!({"task": task, "wait_seconds": 0});
    let run = call(&client, "run_task", task).await;
    let id = json!({"task_id": run["task_id"]});
    until_that(&client, &run["task_id"], |state| state["steps"] == 1).await;
    // The step does not end before it is answered.
    let pausing = call(&client, "pause_task", id).await;
    assert_eq!(
        pausing["message"],
        "It pauses when the step under way has ended."
    );
    gate.open();
    until(&client, &run["task_id"], "paused").await;
}

#[tokio::test]
async fn a_cancelled_task_can_be_resumed() {
    let Some(client) = child().await else { return };
    let id = &start(&client, "RUN: sleep 60\nRUN: echo later").await;
    until_that(&client, id, |state| state["steps"] == 1).await;
    let cancelled = call(&client, "cancel_task", json!({"task_id": id})).await;
    assert_eq!(cancelled["status"], "cancelled");
    let resumed = call(&client, "resume_task", json!({"task_id": id})).await;
    assert_has(
        &resumed,
        json!({"status": "finished", "last_output": "later"}),
    );
}

#[tokio::test]
async fn a_finished_task_has_nothing_to_resume() {
    let Some(client) = child().await else { return };
    let run = call(&client, "run_task", json!({"task": "SAY: done"})).await;
    let refused = refusal(&client, "resume_task", json!({"task_id": run["task_id"]})).await;
    assert!(refused.contains("send_message"), "{refused}");
}

#[tokio::test]
async fn a_wait_ends_with_the_task_and_giving_it_up_changes_nothing() {
    let Some(both) = both().await else { return };
    for client in both.clients {
        let gate = Gate::new();
        let task = format!("RUN: {}; echo late", gate.pass());
        let id = &start(&client, task).await;
        let patience = mcp_client::Options::default().timeout(Duration::from_secs(1));
        let wait = json!({"task_id": id});
        let gave_up = client.call_tool_with("wait_task", &wait, patience).await;
        assert!(gave_up.is_err());
        let short = json!({"task_id": id, "wait_seconds": 0});
        let short = call(&client, "wait_task", short).await;
        assert_eq!(short["status"], "running", "{short}");
        gate.open();
        let ended = call(&client, "wait_task", wait).await;
        assert_has(&ended, json!({"status": "finished", "last_output": "late"}));
    }
}

#[tokio::test]
async fn a_copy_knows_what_the_task_knew_and_goes_its_own_way() {
    let Some(client) = child().await else { return };
    let run = call(&client, "run_task", json!({"task": "RUN: echo 1 > one"})).await;
    let fork = json!({"task_id": run["task_id"], "message": "RUN: cat one; pwd\nFINISH: copied"});
    let copy = call(&client, "fork_task", fork).await;
    assert_ne!(copy["task_id"], run["task_id"]);
    let ended = call(&client, "wait_task", json!({"task_id": copy["task_id"]})).await;
    assert_eq!(ended["result"], "copied", "{ended}");
    assert!(ended["last_output"].as_str().unwrap().starts_with("1\n/"));
    // The original is as it was.
    let first = json!({"task_id": run["task_id"]});
    let first = call(&client, "get_task_result", first).await;
    assert_has(&first, json!({"result": "done", "steps": 2}));
}

#[tokio::test]
async fn deleting_asks_first_and_stops_what_runs() {
    let Some(both) = both().await else { return };
    for client in both.clients {
        let id = &start(&client, "RUN: sleep 60").await;
        until_that(&client, id, |state| state["steps"] == 1).await;
        let refused = refusal(&client, "delete_task", json!({"task_id": id})).await;
        assert!(refused.contains("Nothing was done yet"), "{refused}");
        let other = json!({"task_id": id, "confirm": "yes"});
        let refused = refusal(&client, "delete_task", other).await;
        assert!(refused.contains("Nothing was done"), "{refused}");
        let began = Instant::now();
        let confirmed = json!({"task_id": id, "confirm": id});
        let deleted = call(&client, "delete_task", confirmed).await;
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
    let Some(client) = child().await else { return };
    let run: Value = call(&client, "run_task", json!({"task": "SAY: a"})).await;
    let empty = json!({"task_id": run["task_id"], "message": " "});
    let refused = refusal(&client, "send_message", empty).await;
    assert!(refused.starts_with("message must have"), "{refused}");
}
