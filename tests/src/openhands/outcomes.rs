//! Tests of the outcome of a finished task: exit codes, and the command that checks it.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{assert_error, call, client, run_task, wait_for_status};
use crate::harness::assert_contains;

#[tokio::test]
async fn exit_code_of_the_last_command_is_in_the_result() {
    let Some(client) = client().await else { return };
    let run = run_task(
        &client,
        "RUN: echo broken; (exit 7)\nFINISH: all tests pass",
    )
    .await;
    assert_has!(run, {"status": "finished", "last_output": "broken", "exit_code": 7});
    let run = run_task(&client, "RUN: true").await;
    assert_eq!(run["exit_code"], 0);
}

#[tokio::test]
async fn verify_command_tells_whether_the_work_is_right() {
    let Some(client) = client().await else { return };
    let run =
        call!(client, "run_task", {"task": "RUN: echo made > f", "verify": "cat f; pwd | wc -l"});
    assert_has!(run, {"verified": true, "verify_exit_code": 0, "verify_output": "made\n1"});
    // The outcome is kept, and the command is not run again.
    let again = call!(client, "get_task_result", {"task_id": run["task_id"]});
    assert_eq!(again["verify_output"], run["verify_output"]);
    let task = json!({"task": "FINISH: all tests pass", "verify": "echo it\\'s wrong >&2; exit 3"});
    let run = call(&client, "run_task", task).await;
    assert_has!(run, {"status": "finished", "verified": false, "verify_exit_code": 3,
        "verify_output": "it's wrong"});
    let count = "echo x >> count; wc -l < count";
    let run = call!(client, "run_task", {"task": "RUN: echo x > count", "verify": count});
    let id = &run["task_id"];
    assert_eq!(run["verify_output"], "2");
    let again = call!(client, "wait_task", {"task_id": id});
    assert_eq!(again["verify_output"], "2");
    // More work is checked again.
    call!(client, "send_message", {"task_id": id, "message": "RUN: rm count"});
    wait_for_status(&client, id, "finished").await;
    let again = call!(client, "wait_task", {"task_id": id});
    assert_eq!(again["verify_output"], "1", "{again}");
    let long = json!({"task": "SAY: x", "verify": "x".repeat(201)});
    assert_error(&client, "run_task", long, "verify must be").await;
}

#[tokio::test]
async fn call_does_not_wait_longer_for_a_verify_command_than_asked() {
    let Some(client) = client().await else { return };
    let task = json!({"task": "SAY: x", "verify": "sleep 60", "wait_seconds": 0});
    let id = &call(&client, "run_task", task).await["task_id"];
    wait_for_status(&client, id, "finished").await;
    let began = Instant::now();
    let run = call!(client, "wait_task", {"task_id": id, "wait_seconds": 5});
    assert_has!(run, {"status": "finished", "verified": null});
    assert_contains(&run["next"], "verify command runs");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(18), "{took:?}");
}

#[tokio::test]
async fn parallel_tasks_are_verified_one_by_one() {
    let Some(client) = client().await else { return };
    let tasks = json!([
        {"task": "RUN: touch made", "verify": "test -e made"},
        {"task": "SAY: done", "verify": "test -e made"},
        {"task": "SAY: done"},
    ]);
    let run = call!(client, "run_parallel_tasks", {"tasks": tasks});
    assert_eq!(run["tasks"][0]["verified"], true, "{run}");
    assert_has!(run["tasks"][1], {"verified": false, "verify_exit_code": 1});
    assert!(run["tasks"][2]["verified"].is_null());
}

#[tokio::test]
async fn unfinished_task_is_not_verified() {
    let Some(client) = client().await else { return };
    let run = call!(client, "run_task", {"task": "HTTP: 401", "verify": "true"});
    assert_eq!(run["status"], "failed");
    assert!(run["verified"].is_null(), "{run}");
}

#[tokio::test]
async fn agent_profiles_are_listed_with_their_models() {
    let Some(client) = client().await else { return };
    let listed = call(&client, "list_agent_profiles", json!({})).await;
    let profiles = listed["profiles"].as_array().unwrap();
    let active: Vec<_> = profiles
        .iter()
        .filter(|row| row["default"] == true)
        .collect();
    assert_eq!(active.len(), 1, "{listed}");
    assert!(
        active[0]["name"].is_string() && active[0]["model"].is_string(),
        "{listed}"
    );
    let run = call!(client, "run_task", {"task": "SAY: hi", "agent": active[0]["name"]});
    assert_contains(&run["result"], "hi");
}
