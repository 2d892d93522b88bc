//! An agent server that goes away in the middle, and a model that is slow.

use serde_json::{Value, json};

use super::line::Line;
use super::{NAME, call, client, direct, env, on, refusal, refuses, run_task, start_task, until};
use crate::harness::real::openhands;
use crate::harness::{Server, stdio_client};

#[tokio::test]
async fn a_wait_outlives_an_agent_server_that_is_away_for_a_while() {
    let Some(real) = openhands() else { return };
    let line = Line::to(real).await;
    let server = Server::start(NAME, &env(&line.real)).await;
    let client = server.client().await;
    let run = start_task(&client, "RUN: sleep 2; echo survived").await;
    let id = json!({"task_id": run["task_id"]});
    line.cut();
    let short = json!({"task_id": run["task_id"], "wait_seconds": 1});
    refuses(&client, "wait_task", short, "does not answer").await;
    server.wait_for_status("degraded").await;
    let waiting = call(&client, "wait_task", id);
    let mending = async {
        // Real time: the wait has found nobody at least once, which nobody tells.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        line.mend();
    };
    let (ended, ()) = tokio::join!(waiting, mending);
    assert_has!(ended, {"status": "finished", "last_output": "survived"});
    server.wait_for_status("online").await;
}

#[tokio::test]
async fn a_started_task_keeps_its_id_when_the_line_is_cut() {
    let Some(real) = openhands() else { return };
    let line = Line::to(real).await;
    let server = Server::start(NAME, &env(&line.real)).await;
    let client = server.client().await;
    let task = json!({"task": "RUN: sleep 2; echo kept", "wait_seconds": 4});
    let running = call(&client, "run_task", task);
    let cutting = async {
        server.wait_for_log("task started").await;
        line.cut();
    };
    let (run, ()) = tokio::join!(running, cutting);
    assert!(
        matches!(run["status"].as_str(), Some("unknown" | "running")),
        "{run}"
    );
    line.mend();
    let ended = call!(client, "wait_task", {"task_id": run["task_id"]});
    assert_eq!(ended["last_output"], "kept", "{ended}");
}

#[tokio::test]
async fn nothing_is_started_twice_when_the_answer_is_lost() {
    let Some(real) = openhands() else { return };
    let line = Line::to(real).await;
    let client = stdio_client(NAME, &env(&line.real)).await;
    let key = uuid::Uuid::new_v4().to_string();
    let order = json!({"task": "RUN: echo ran >> log; cat log", "idempotency_key": key});
    line.cut();
    refuses(&client, "run_task", order.clone(), "does not answer").await;
    line.mend();
    let first = call(&client, "run_task", order.clone()).await;
    let again = call(&client, "run_task", order).await;
    assert_eq!(first["task_id"], again["task_id"]);
    assert_eq!(again["last_output"], "ran");
}

#[tokio::test]
async fn a_slow_model_is_running_and_not_lost() {
    let Some(client) = client().await else { return };
    let task = json!({"task": "SLEEP: 4\nSAY: slow but sure", "wait_seconds": 1});
    let run = call(&client, "run_task", task).await;
    assert_has!(run, {"status": "running", "steps": 0});
    let ended = on(&client, "wait_task", &run["task_id"]).await;
    assert_has!(ended, {"status": "finished", "result": "slow but sure"});
}

#[tokio::test]
async fn a_slow_model_can_be_cancelled() {
    let Some(client) = client().await else { return };
    let run = call!(client, "run_task", {"task": "SLEEP: 20\nSAY: never", "wait_seconds": 1});
    let id = json!({"task_id": run["task_id"]});
    call(&client, "cancel_task", id.clone()).await;
    until(&client, &run["task_id"], "cancelled").await;
    let result = call(&client, "get_task_result", id).await;
    assert!(result.get("result").is_none(), "{result}");
}

#[tokio::test]
async fn a_task_that_somebody_else_deleted_is_not_found() {
    let Some(real) = openhands() else { return };
    let client = stdio_client(NAME, &env(&real)).await;
    let run = run_task(&client, "SAY: x").await;
    let path = format!("/api/conversations/{}", run["task_id"].as_str().unwrap());
    direct(&real, "DELETE", &path, Value::Null).await;
    let gone = refusal(&client, "wait_task", json!({"task_id": run["task_id"]})).await;
    assert!(gone.starts_with("There is no task"), "{gone}");
}
