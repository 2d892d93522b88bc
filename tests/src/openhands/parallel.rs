//! Several tasks at once, more than there is room for.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Mutex;
use uuid::Uuid;

use super::gate::Gate;
use super::{NAME, both, call, client, env, env_with, on, refusal, refuses, until};
use crate::harness::real::openhands;
use crate::harness::{Server, stdio_client};

/// The agent server runs ten at once.
const MANY: usize = 14;

/// Held by tests that fill the agent server, or wait until hardly anything runs there.
static PLACES: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn fourteen_tasks_are_all_done_although_ten_run_at_once() {
    let Some(real) = openhands() else { return };
    let _places = PLACES.lock().await;
    let server = Server::start(NAME, &env(&real)).await;
    let client = server.client().await;
    let key = Uuid::new_v4();
    let task = |n| {
        json!({"task": format!("RUN: sleep 3; echo task-{n}\nFINISH: done-{n}"),
        "idempotency_key": format!("{key}-{n}")})
    };
    let tasks: Vec<Value> = (0..MANY).map(task).collect();
    let order = json!({"tasks": tasks, "wait_seconds": 1});
    let mut runs = call(&client, "run_parallel_tasks", order.clone()).await;
    // On a busy machine not all are started in the time of one call, which is then repeated.
    for _ in 0..5 {
        if runs["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .all(|run| run.get("error").is_none())
        {
            break;
        }
        runs = call(&client, "run_parallel_tasks", order.clone()).await;
    }
    let runs = runs["tasks"].as_array().unwrap();
    assert_eq!(runs.len(), MANY);
    for (n, run) in runs.iter().enumerate() {
        assert!(run.get("error").is_none(), "{run}");
        until(&client, &run["task_id"], "finished").await;
        let result = on(&client, "get_task_result", &run["task_id"]).await;
        assert_has!(result, {"result": format!("done-{n}"), "last_output": format!("task-{n}")});
    }
}

#[tokio::test]
async fn few_tasks_are_waited_for_together() {
    for client in both().await {
        let file = json!({"file": "in.txt", "content": "given"});
        let tasks = json!({"tasks": [
            {"task": "RUN: cat in.txt\nFINISH: first", "context": file},
            {"task": "HTTP: 500"},
            {"task": "SAY: third"},
        ]});
        let runs = call(&client, "run_parallel_tasks", tasks).await;
        let told = |n: usize| (&runs["tasks"][n]["status"], &runs["tasks"][n]["result"]);
        assert_eq!(told(0), (&json!("finished"), &json!("first")), "{runs}");
        assert_eq!(told(1).0, "failed", "{runs}");
        assert_eq!(told(2), (&json!("finished"), &json!("third")), "{runs}");
        assert_eq!(runs["queued"], 0);
        assert!(runs.get("next").is_none(), "{runs}");
    }
}

#[tokio::test]
async fn what_is_beyond_the_operators_limit_waits_its_turn() {
    let Some(real) = openhands() else { return };
    let _places = PLACES.lock().await;
    // Other tests may run tasks of their own: with a limit of one, one at most is ours.
    let limit = [("OPENHANDS_MAX_PARALLEL", "1")];
    let server = Server::start(NAME, &env_with(&real, &limit)).await;
    let client = server.client().await;
    let gate = Gate::new();
    let task = json!({"task": format!("RUN: {}", gate.pass())});
    let tasks = [&task, &task, &task];
    let runs = call!(client, "run_parallel_tasks", {"tasks": tasks, "wait_seconds": 0});
    assert!(runs["queued"].as_u64().unwrap() >= 2, "{runs}");
    assert!(runs["next"].is_string(), "{runs}");
    let queued = runs["tasks"].as_array().unwrap().iter();
    let queued = queued.filter(|run| run["status"] == "queued").count();
    assert_eq!(json!(queued), runs["queued"]);
    gate.open();
    for run in runs["tasks"].as_array().unwrap() {
        until(&client, &run["task_id"], "finished").await;
    }
}

/// One that waits; which of them, is nobody's business.
fn waiting(runs: &Value) -> &Value {
    let mut runs = runs["tasks"].as_array().unwrap().iter();
    runs.find(|run| run["status"] == "queued")
        .expect("one waits")
}

#[tokio::test]
async fn a_queued_task_survives_our_restart() {
    let Some(real) = openhands() else { return };
    let _places = PLACES.lock().await;
    let limit = [("OPENHANDS_MAX_PARALLEL", "1")];
    let server = Server::start(NAME, &env_with(&real, &limit)).await;
    let client = server.client().await;
    let gate = Gate::new();
    let task = json!({"task": format!("RUN: {}; echo survived", gate.pass())});
    let runs = call!(client, "run_parallel_tasks", {"tasks": [task, task], "wait_seconds": 0});
    let second = waiting(&runs);
    server.kill().await;
    gate.open();
    let server = Server::start(NAME, &env(&real)).await;
    let client = server.client().await;
    until(&client, &second["task_id"], "finished").await;
    let result = on(&client, "get_task_result", &second["task_id"]).await;
    assert_has!(result, {"last_output": "survived", "steps": 2});
}

#[tokio::test]
async fn a_queued_task_can_be_cancelled_and_never_runs() {
    let Some(real) = openhands() else { return };
    let _places = PLACES.lock().await;
    let limit = [("OPENHANDS_MAX_PARALLEL", "1")];
    let client = stdio_client(NAME, &env_with(&real, &limit)).await;
    let gate = Gate::new();
    let task = json!({"task": format!("RUN: {}", gate.pass())});
    let tasks = json!({"tasks": [task, task], "wait_seconds": 0});
    let runs = call(&client, "run_parallel_tasks", tasks).await;
    let second = json!({"task_id": waiting(&runs)["task_id"]});
    let cancelled = call(&client, "cancel_task", second.clone()).await;
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    gate.open();
    for run in runs["tasks"].as_array().unwrap() {
        if run["task_id"] != second["task_id"] {
            until(&client, &run["task_id"], "finished").await;
        }
    }
    // Its turn would have come; real time, since nothing happens.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let result = call(&client, "get_task_result", second).await;
    assert_has!(result, {"status": "cancelled", "steps": 0});
}

#[tokio::test]
async fn a_queued_task_with_a_key_is_found_and_not_ordered_again() {
    let Some(real) = openhands() else { return };
    let _places = PLACES.lock().await;
    let limit = [("OPENHANDS_MAX_PARALLEL", "1")];
    let client = stdio_client(NAME, &env_with(&real, &limit)).await;
    let gate = Gate::new();
    let busy = json!({"task": format!("RUN: {}", gate.pass()), "wait_seconds": 0});
    let busy = call(&client, "run_task", busy).await;
    let order = json!({"task": "RUN: echo once >> log; cat log", "wait_seconds": 0,
        "idempotency_key": Uuid::new_v4().to_string()});
    let first = call(&client, "run_task", order.clone()).await;
    assert_eq!(first["status"], "queued", "{first} behind {busy}");
    let again = call(&client, "run_task", order.clone()).await;
    assert_eq!(again["task_id"], first["task_id"]);
    gate.open();
    until(&client, &first["task_id"], "finished").await;
    let ended = call(&client, "run_task", order).await;
    assert_eq!(ended["last_output"], "once");
}

#[tokio::test]
async fn the_bounds_of_a_call_are_named() {
    let Some(client) = client().await else { return };
    refuses(
        &client,
        "run_parallel_tasks",
        json!({"tasks": []}),
        "1 to 20",
    )
    .await;
    let tasks: Vec<Value> = (0..21).map(|_| json!({"task": "SAY: a"})).collect();
    refuses(
        &client,
        "run_parallel_tasks",
        json!({"tasks": tasks}),
        "1 to 20",
    )
    .await;
    let tasks = json!({"tasks": [{"task": "SAY: a"}, {"task": " "}]});
    let empty = refusal(&client, "run_parallel_tasks", tasks).await;
    assert!(empty.starts_with("tasks[1]: task must say"), "{empty}");
}
