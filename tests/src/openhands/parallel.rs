//! More parallel tasks than there are slots.

use std::time::Duration;

use mcp_client::Client;
use serde_json::{Value, json};
use uuid::Uuid;

use super::gate::Gate;
use super::{
    agent_server, assert_error, both_transports, call, call_with_id, client, client_with,
    conversation, run_task, server_with, start_task, tool_error, wait_for_status,
};
use crate::harness::assert_starts_with;
use crate::harness::real::openhands;

/// The agent server runs ten tasks at once.
const MORE_THAN_SLOTS: usize = 14;

/// A limit of one slot, because tasks of other tests count, too.
const ONE_SLOT: [(&str, &str); 1] = [("OPENHANDS_MAX_PARALLEL", "1")];

/// The results of a call for several tasks.
fn runs(result: &Value) -> &[Value] {
    result["tasks"].as_array().unwrap()
}

/// Starts several equal tasks without waiting for them.
async fn start_tasks(client: &Client, task: &str, count: usize) -> Value {
    let tasks = vec![json!({"task": task}); count];
    call!(client, "run_parallel_tasks", {"tasks": tasks, "wait_seconds": 0})
}

/// One of the queued tasks.
fn queued(result: &Value) -> &Value {
    let mut queued = runs(result).iter().filter(|run| run["status"] == "queued");
    queued.next().expect("a queued task")
}

#[tokio::test]
async fn more_tasks_than_slots_are_all_done() {
    let Some(real) = openhands() else {
        return;
    };
    let (_server, client) = server_with(&real, &[]).await;
    let key = Uuid::new_v4();
    let task = |n| {
        json!({"task": format!("RUN: sleep 3; echo task-{n}\nFINISH: done-{n}"),
            "idempotency_key": format!("{key}-{n}")})
    };
    let tasks: Vec<Value> = (0..MORE_THAN_SLOTS).map(task).collect();
    let arguments = json!({"tasks": tasks, "wait_seconds": 1});
    let mut result = call(&client, "run_parallel_tasks", arguments.clone()).await;
    // On a busy machine one call may be too short to start all, so it is repeated.
    for _ in 0..5 {
        if runs(&result).iter().all(|run| run.get("error").is_none()) {
            break;
        }
        result = call(&client, "run_parallel_tasks", arguments.clone()).await;
    }
    assert_eq!(runs(&result).len(), MORE_THAN_SLOTS);
    for (n, run) in runs(&result).iter().enumerate() {
        assert!(run.get("error").is_none(), "{run}");
        wait_for_status(&client, &run["task_id"], "finished").await;
        let result = call_with_id(&client, "get_task_result", &run["task_id"]).await;
        assert_has!(result, {"result": format!("done-{n}"), "last_output": format!("task-{n}")});
    }
}

#[tokio::test]
async fn call_waits_for_all_tasks() {
    for client in both_transports().await {
        let file = json!({"file": "in.txt", "content": "given"});
        let result = call!(client, "run_parallel_tasks", {"tasks": [
            {"task": "RUN: cat in.txt\nFINISH: first", "context": file},
            {"task": "HTTP: 500"},
            {"task": "SAY: third"},
        ]});
        let runs = runs(&result);
        assert_has!(runs[0], {"status": "finished", "result": "first"});
        assert_has!(runs[1], {"status": "failed"});
        assert_has!(runs[2], {"status": "finished", "result": "third"});
        assert_eq!(result["queued"], 0);
        assert!(result.get("next").is_none(), "{result}");
    }
}

#[tokio::test]
async fn tasks_beyond_the_limit_are_queued() {
    let Some(real) = openhands() else {
        return;
    };
    let (_server, client) = server_with(&real, &ONE_SLOT).await;
    let gate = Gate::new();
    let result = start_tasks(&client, &format!("RUN: {}", gate.pass()), 3).await;
    assert!(result["queued"].as_u64().unwrap() >= 2, "{result}");
    assert!(result["next"].is_string(), "{result}");
    let queued = runs(&result).iter().filter(|run| run["status"] == "queued");
    assert_eq!(result["queued"], queued.count());
    gate.open();
    for run in runs(&result) {
        wait_for_status(&client, &run["task_id"], "finished").await;
    }
}

#[tokio::test]
async fn queued_task_survives_a_restart_of_our_server() {
    let Some(real) = openhands() else {
        return;
    };
    let (server, client) = server_with(&real, &ONE_SLOT).await;
    let gate = Gate::new();
    let task = format!("RUN: {}; echo survived", gate.pass());
    let result = start_tasks(&client, &task, 2).await;
    let id = &queued(&result)["task_id"];
    server.kill().await;
    gate.open();
    let (_server, client) = server_with(&real, &[]).await;
    wait_for_status(&client, id, "finished").await;
    let result = call_with_id(&client, "get_task_result", id).await;
    assert_has!(result, {"last_output": "survived", "steps": 2});
}

#[tokio::test]
async fn cancelled_queued_task_never_runs() {
    let Some(real) = openhands() else {
        return;
    };
    let client = client_with(&real, &ONE_SLOT).await;
    let gate = Gate::new();
    let result = start_tasks(&client, &format!("RUN: {}", gate.pass()), 2).await;
    let id = &queued(&result)["task_id"];
    let cancelled = call_with_id(&client, "cancel_task", id).await;
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    gate.open();
    for run in runs(&result).iter().filter(|run| run["task_id"] != *id) {
        wait_for_status(&client, &run["task_id"], "finished").await;
    }
    // Real time: it would have started by now, and no event reports that it did not.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let result = call_with_id(&client, "get_task_result", id).await;
    assert_has!(result, {"status": "cancelled", "steps": 0});
}

#[tokio::test]
async fn tasks_start_in_their_order() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[]).await;
    let result = start_tasks(&client, "SAY: x", 6).await;
    let mut created = Vec::new();
    for run in runs(&result) {
        let at = conversation(&real, &run["task_id"]).await["created_at"].clone();
        created.push(at.as_str().unwrap().to_owned());
    }
    assert!(created.is_sorted(), "{created:?}");
}

#[tokio::test]
async fn run_that_a_kill_cut_off_before_it_began_is_begun_again() {
    let Some(real) = openhands() else {
        return;
    };
    let (server, client) = server_with(&real, &ONE_SLOT).await;
    let gate = Gate::new();
    let busy = start_task(&client, &format!("RUN: {}", gate.pass())).await;
    let cut_off = start_task(&client, "RUN: echo begun").await;
    assert_eq!(cut_off["status"], "queued", "{cut_off} behind {busy}");
    server.kill().await;
    gate.open();
    // A server tags a run before it begins.
    let id = &cut_off["task_id"];
    let mut tags = conversation(&real, id).await["tags"].clone();
    tags.as_object_mut().unwrap().remove("mcpwaits");
    tags["mcpdeadline"] = json!("4000000000");
    tags["mcpafter"] = json!("2026-01-01");
    let path = format!("/api/conversations/{}", id.as_str().unwrap());
    agent_server(&real, "PATCH", &path, json!({"tags": tags})).await;
    let (_server, client) = server_with(&real, &[]).await;
    assert_eq!(
        call_with_id(&client, "get_task_status", id).await["status"],
        "running"
    );
    wait_for_status(&client, id, "finished").await;
    let result = call_with_id(&client, "get_task_result", id).await;
    assert_has!(result, {"last_output": "begun", "steps": 2});
}

#[tokio::test]
async fn cancelled_queued_task_that_has_failed_before_never_runs() {
    let Some(real) = openhands() else {
        return;
    };
    let client = client_with(&real, &ONE_SLOT).await;
    let failed = run_task(&client, "HTTP: 500\nRUN: echo again").await;
    assert_eq!(failed["status"], "failed", "{failed}");
    let gate = Gate::new();
    start_task(&client, &format!("RUN: {}", gate.pass())).await;
    let id = &failed["task_id"];
    let queued = call!(client, "resume_task", {"task_id": id, "wait_seconds": 0});
    assert_eq!(queued["status"], "queued", "{queued}");
    let cancelled = call_with_id(&client, "cancel_task", id).await;
    assert_eq!(cancelled["message"], "It was stopped.", "{cancelled}");
    gate.open();
    // Real time: it would have started by now, and no event reports that it did not.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let result = call_with_id(&client, "get_task_result", id).await;
    assert_has!(result, {"status": cancelled["status"], "steps": 0});
}

#[tokio::test]
async fn queued_task_is_found_by_its_key() {
    let Some(real) = openhands() else {
        return;
    };
    let client = client_with(&real, &ONE_SLOT).await;
    let gate = Gate::new();
    let busy = start_task(&client, &format!("RUN: {}", gate.pass())).await;
    let arguments = json!({"task": "RUN: echo once >> log; cat log", "wait_seconds": 0,
        "idempotency_key": Uuid::new_v4().to_string()});
    let first = call(&client, "run_task", arguments.clone()).await;
    assert_eq!(first["status"], "queued", "{first} behind {busy}");
    let again = call(&client, "run_task", arguments.clone()).await;
    assert_eq!(again["task_id"], first["task_id"]);
    gate.open();
    wait_for_status(&client, &first["task_id"], "finished").await;
    let ended = call(&client, "run_task", arguments).await;
    assert_eq!(ended["last_output"], "once");
}

#[tokio::test]
async fn invalid_lists_of_tasks_are_refused() {
    let Some(client) = client().await else { return };
    for count in [0, 21] {
        let tasks = vec![json!({"task": "SAY: a"}); count];
        assert_error!(client, "run_parallel_tasks", {"tasks": tasks}, "1 to 20");
    }
    let tasks = json!([{"task": "SAY: a"}, {"task": " "}]);
    let empty = tool_error!(client, "run_parallel_tasks", {"tasks": tasks});
    assert_starts_with(&empty, "tasks[1]: task must say");
    let task = json!({"task": "SAY: a", "idempotency_key": Uuid::new_v4().to_string()});
    let twice = tool_error!(client, "run_parallel_tasks", {"tasks": [task, task]});
    assert_starts_with(&twice, "tasks[1].idempotency_key is");
}
