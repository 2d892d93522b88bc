//! Tasks whose agent asks before it acts.

use serde_json::json;

use super::{both, call, client, on, refuses, until};

#[tokio::test]
async fn every_action_waits_for_its_permission() {
    for client in both().await {
        let task = json!({"task": "RUN: echo one\nRUN: echo two\nSAY: both", "confirm": "always"});
        let asked = call(&client, "run_task", task).await;
        assert_has!(asked, {"status": "waiting_for_confirmation", "last_action": "terminal echo one"});
        assert!(asked.get("last_output").is_none(), "{asked}");
        let yes = json!({"task_id": asked["task_id"], "accept": true});
        let second = call(&client, "respond_confirmation", yes.clone()).await;
        assert_has!(second, {"status": "waiting_for_confirmation", "last_action": "terminal echo two",
            "last_output": "one"});
        let ended = call(&client, "respond_confirmation", yes).await;
        assert_has!(ended, {"status": "finished", "result": "both", "last_output": "two"});
    }
}

#[tokio::test]
async fn a_refused_action_is_not_done_and_the_agent_can_be_told_why() {
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
async fn nothing_but_an_answer_is_taken_for_one() {
    let Some(client) = client().await else { return };
    let asked = call!(client, "run_task", {"task": "RUN: echo x > made", "confirm": "always"});
    let id = &asked["task_id"];
    // To let the agent run would be to agree.
    for (tool, arguments) in [
        ("resume_task", json!({"task_id": id})),
        (
            "send_message",
            json!({"task_id": id, "message": "SAY: go on"}),
        ),
    ] {
        refuses(&client, tool, arguments, "respond_confirmation").await;
    }
    let status = until(&client, id, "waiting_for_confirmation").await;
    assert_eq!(status["steps"], 1);
    let cancelled = on(&client, "cancel_task", id).await;
    assert_eq!(cancelled["status"], "cancelled");
    let late = json!({"task_id": id, "accept": true});
    refuses(
        &client,
        "respond_confirmation",
        late,
        "does not wait for a permission",
    )
    .await;
}

#[tokio::test]
async fn actions_without_risk_need_no_permission_where_only_risky_ones_do() {
    let Some(client) = client().await else { return };
    let run = call!(client, "run_task", {"task": "RUN: echo harmless", "confirm": "risky"});
    assert_has!(run, {"status": "finished", "last_output": "harmless"});
}
