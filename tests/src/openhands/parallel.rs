//! More parallel tasks than there are slots.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use super::tools::Gate;
use super::{
    assert_error, call, call_with_id, client, client_with, run_task, server_with, start_task,
    tool_error, wait_for_first_step, wait_for_status,
};
use crate::harness::real::openhands;
use crate::harness::{assert_contains, eventually};

/// The agent server runs ten tasks at once.
const MORE_THAN_SLOTS: usize = 14;

/// A limit of one slot, because tasks of other tests count, too.
const ONE_SLOT: [(&str, &str); 1] = [("OPENHANDS_MAX_PARALLEL", "1")];

/// The results of a call for several tasks.
fn runs(result: &Value) -> &[Value] {
    result["tasks"].as_array().unwrap()
}

#[tokio::test]
async fn more_tasks_than_slots_are_all_done_by_repeated_calls() {
    let Some(real) = openhands() else { return };
    let (_server, client) = server_with(&real, &[]).await;
    let key = Uuid::new_v4();
    let task = |n| {
        json!({"task": format!("RUN: sleep 3; echo task-{n}\nFINISH: done-{n}"),
            "idempotency_key": format!("{key}-{n}")})
    };
    let tasks: Vec<Value> = (0..MORE_THAN_SLOTS).map(task).collect();
    let arguments = json!({"tasks": tasks, "wait_seconds": 1});
    let mut result = call(&client, "run_parallel_tasks", arguments.clone()).await;
    for _ in 0..50 {
        let refused = runs(&result)
            .iter()
            .filter(|run| run.get("error").is_some());
        let refused: Vec<_> = refused.collect();
        if refused.is_empty() {
            break;
        }
        for run in refused {
            // On a busy machine the time of the call may be over before the task has started.
            let text = run["error"].as_str().unwrap();
            let is_late = text.contains("takes too long to start");
            assert!(is_late || text.contains("idempotency_key"), "{text}");
            assert!(run.get("task_id").is_none(), "{run}");
        }
        result = call(&client, "run_parallel_tasks", arguments.clone()).await;
    }
    assert_eq!(runs(&result).len(), MORE_THAN_SLOTS);
    for (n, run) in runs(&result).iter().enumerate() {
        assert!(run.get("error").is_none(), "{run}");
        wait_for_status(&client, &run["task_id"], "finished").await;
        let result = call_with_id(&client, "get_task_result", &run["task_id"]).await;
        assert_has!(result, {"result": format!("done-{n}"), "last_output": format!("task-{n}"),
            "steps": 2});
    }
}

#[tokio::test]
async fn call_waits_for_all_tasks() {
    let Some(client) = client().await else { return };
    let file = json!({"file": "in.txt", "content": "given"});
    let key = Uuid::new_v4();
    let key = |n: u8| format!("{key}-{n}");
    let arguments = json!({"tasks": [
        {"task": "RUN: cat in.txt\nFINISH: first", "context": file, "verify": "test -e in.txt",
            "idempotency_key": key(1)},
        {"task": "HTTP: 500", "idempotency_key": key(2)},
        {"task": "SAY: third", "verify": "test -e in.txt", "idempotency_key": key(3)},
    ]});
    let ended = async || {
        let began = Instant::now();
        let result = call(&client, "run_parallel_tasks", arguments.clone()).await;
        let verified = [0, 2].map(|at| &runs(&result)[at]["verified"]);
        let is_over = result.get("next").is_none() && verified.iter().all(|one| one.is_boolean());
        // On a busy machine the time of the call may be over before.
        assert!(
            is_over || began.elapsed() > Duration::from_secs(19),
            "{result}"
        );
        is_over.then_some(result)
    };
    let result = eventually("the end of all", ended).await;
    let runs = runs(&result);
    assert_has!(runs[0], {"status": "finished", "result": "first", "verified": true});
    assert_has!(runs[1], {"status": "failed", "verified": null});
    assert_has!(runs[2], {"status": "finished", "result": "third", "verified": false,
            "verify_exit_code": 1});
    assert_eq!(result["queued"], 0);
    assert!(result.get("next").is_none(), "{result}");
}

#[tokio::test]
async fn task_without_a_slot_is_refused_and_runs_once_when_its_call_is_repeated() {
    let Some(real) = openhands() else { return };
    let (client, full) = (
        client_with(&real, &[]).await,
        client_with(&real, &ONE_SLOT).await,
    );
    let gate = Gate::new();
    let busy = start_task(&client, &format!("RUN: {}", gate.pass())).await;
    wait_for_first_step(&client, &busy["task_id"]).await;
    let models = call!(client, "list_agent_profiles", {});
    // The model is set between the creation of such a task and its start.
    for model in [Value::Null, models["models"][0]["name"].clone()] {
        let arguments = json!({"task": "RUN: echo once >> log; cat log", "model": model,
            "wait_seconds": 0, "idempotency_key": Uuid::new_v4().to_string()});
        let error = tool_error(&full, "run_task", arguments.clone()).await;
        assert_contains(&error, "Repeat this call with the same idempotency_key");
        let mut waiting = arguments.clone();
        waiting["wait_seconds"] = Value::Null;
        for _ in 0..2 {
            let ended = call(&client, "run_task", waiting.clone()).await;
            assert_has!(ended, {"status": "finished", "last_output": "once"});
        }
        let again = call(&full, "run_task", arguments).await;
        assert_eq!(again["status"], "finished", "{again}");
    }
    let resumed = json!({"task_id": run_task(&client, "HTTP: 500").await["task_id"]});
    let refusal = "All slots for running tasks are taken";
    assert_error(&full, "resume_task", resumed, refusal).await;
    let rows = call!(full, "run_parallel_tasks", {"tasks": [{"task": "SAY: x"}],
        "wait_seconds": 0});
    assert_contains(
        &runs(&rows)[0]["error"],
        "Run it again when a task has ended",
    );
    gate.open();
    wait_for_status(&client, &busy["task_id"], "finished").await;
}
