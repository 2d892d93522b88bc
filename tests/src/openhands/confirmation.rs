//! Tasks whose agent asks for permission before it acts.

use futures_util::future::join_all;
use serde_json::json;

use super::{assert_error, both_transports, call, call_with_id, client, wait_for_status};
use crate::harness::assert_contains;

#[tokio::test]
async fn each_action_waits_for_its_permission() {
    for client in both_transports().await {
        let task = json!({"task": "RUN: echo one\nRUN: echo two\nSAY: both", "confirm": "always"});
        let asked = call(&client, "run_task", task).await;
        let expected = "terminal echo one";
        assert_has!(asked, {"status": "waiting_for_confirmation", "last_action": expected});
        assert!(asked.get("last_output").is_none(), "{asked}");
        let yes = json!({"task_id": asked["task_id"], "accept": true});
        let second = call(&client, "respond_confirmation", yes.clone()).await;
        assert_has!(second, {"status": "waiting_for_confirmation",
            "last_action": "terminal echo two", "last_output": "one"});
        let ended = call(&client, "respond_confirmation", yes).await;
        assert_has!(ended, {"status": "finished", "result": "both", "last_output": "two"});
    }
}

#[tokio::test]
async fn refused_action_is_not_run_and_the_agent_continues_with_a_message() {
    let Some(client) = client().await else { return };
    let task = json!({"task": "RUN: echo x > made\nSAY: never", "confirm": "always"});
    let asked = call(&client, "run_task", task).await;
    let id = &asked["task_id"];
    let no = json!({"task_id": id, "accept": false, "reason": "not this file"});
    let refused = call(&client, "respond_confirmation", no).await;
    assert_eq!(refused["status"], "idle", "{refused}");
    assert!(refused.get("changed_files").is_none(), "{refused}");
    let events = call!(client, "get_task_events", {"task_id": id, "kinds": ["stop"]});
    assert_eq!(events["events"][0]["text"], "not this file", "{events}");
    let instead = call!(client, "send_message", {"task_id": id, "message": "SAY: understood"});
    assert_has!(instead, {"status": "finished", "result": "understood"});
}

#[tokio::test]
async fn only_respond_confirmation_answers_the_agent() {
    let Some(client) = client().await else { return };
    let asked = call!(client, "run_task", {"task": "RUN: echo x > made", "confirm": "always"});
    let id = &asked["task_id"];
    // Resuming would approve the action.
    assert_error!(client, "resume_task", {"task_id": id}, "respond_confirmation");
    let message = json!({"task_id": id, "message": "SAY: go on"});
    assert_error(&client, "send_message", message, "respond_confirmation").await;
    let status = wait_for_status(&client, id, "waiting_for_confirmation").await;
    assert_eq!(status["steps"], 1);
    let cancelled = call_with_id(&client, "cancel_task", id).await;
    assert_eq!(cancelled["status"], "cancelled");
    let late = json!({"task_id": id, "accept": true});
    let expected = "is not waiting for a permission";
    assert_error(&client, "respond_confirmation", late, expected).await;
}

#[tokio::test]
async fn one_of_several_answers_counts_and_the_others_are_refused() {
    let Some(client) = client().await else { return };
    let task = json!({"task": "RUN: echo x > made\nSAY: done", "confirm": "always"});
    let id = &call(&client, "run_task", task).await["task_id"];
    let answers = [true, false, true, false].map(async |accept| {
        let answer = json!({"task_id": id, "accept": accept});
        let told = client.call_tool("respond_confirmation", &answer).await;
        (accept, told.unwrap())
    });
    let told = join_all(answers).await;
    let (refused, counted): (Vec<_>, Vec<_>) = told.iter().partition(|(_, told)| told.is_error);
    assert_eq!(counted.len(), 1, "{told:?}");
    for (_, told) in refused {
        assert_contains(&told.text(), "not waiting for a permission");
    }
    let result = call_with_id(&client, "get_task_result", id).await;
    assert_eq!(result["changed_files"].is_array(), counted[0].0, "{result}");
}

#[tokio::test]
async fn harmless_actions_need_no_permission_with_confirm_risky() {
    let Some(client) = client().await else { return };
    let run = call!(client, "run_task", {"task": "RUN: echo harmless", "confirm": "risky"});
    assert_has!(run, {"status": "finished", "last_output": "harmless"});
}
