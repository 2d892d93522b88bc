//! An agent server that becomes unreachable for a while, and a slow model.

use std::time::{Duration, Instant};

use mcp_client::EraChoice;
use serde_json::{Value, json};
use uuid::Uuid;

use super::proxy::Proxy;
use super::resources::{subscribe, subscriber, uri, wait_for_updates};
use super::{
    agent_server, assert_error, call, call_with_id, client, client_with, run_task, server_with,
    start_task, tool_error, wait_for_status,
};
use crate::harness::real::openhands;
use crate::harness::{assert_contains, assert_starts_with};

#[tokio::test]
async fn wait_survives_an_outage_of_the_agent_server() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let (server, client) = server_with(&proxy.real, &[]).await;
    let run = start_task(&client, "RUN: sleep 2; echo survived").await;
    let id = &run["task_id"];
    proxy.disconnect();
    let short = json!({"task_id": id, "wait_seconds": 1});
    assert_error(&client, "wait_task", short, "does not answer").await;
    // A call that fails is followed by a check.
    let failed = Instant::now();
    server.wait_for_status("degraded").await;
    assert!(failed.elapsed() < Duration::from_secs(20));
    let waiting = call_with_id(&client, "wait_task", id);
    let reconnecting = async {
        // Real time: at least one poll of the wait must fail, which no event reports.
        tokio::time::sleep(Duration::from_secs(1)).await;
        proxy.reconnect();
    };
    let (ended, ()) = tokio::join!(waiting, reconnecting);
    assert_has!(ended, {"status": "finished", "last_output": "survived"});
    server.wait_for_status("online").await;
}

#[tokio::test]
async fn change_during_an_outage_is_announced_after_it() {
    let Some(real) = openhands() else { return };
    let direct = client_with(&real, &[]).await;
    let proxy = Proxy::start(real).await;
    let (server, _) = server_with(&proxy.real, &[]).await;
    let run = run_task(&direct, "SAY: ready").await;
    let id = &run["task_id"];
    let (client, mut updates) = subscriber(&proxy.real, &server, Some(EraChoice::Legacy)).await;
    let events = [format!("{}/events", uri(id))];
    subscribe(&client, &events).await;
    wait_for_updates(&mut updates, &events).await;
    proxy.disconnect();
    call!(direct, "send_message", {"task_id": id, "message": "SAY: missed"});
    assert!(updates.try_recv().is_err(), "announced while disconnected");
    proxy.reconnect();
    wait_for_updates(&mut updates, &events).await;
}

#[tokio::test]
async fn wait_says_only_what_is_known_while_the_agent_server_hangs() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let client = client_with(&proxy.real, &[]).await;
    let run = run_task(&client, "SAY: done").await;
    proxy.hang();
    let wait = |id: &Value| json!({"task_id": id, "wait_seconds": 1});
    let ended = call(&client, "wait_task", wait(&run["task_id"])).await;
    assert_eq!(ended["status"], "finished", "{ended}");
    assert_contains(&ended["next"], "last known status");
    let never_seen = wait(&json!(Uuid::new_v4().to_string()));
    assert_error(&client, "wait_task", never_seen, "nothing is known").await;
}

#[tokio::test]
async fn started_task_keeps_its_id_in_an_outage() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let (server, client) = server_with(&proxy.real, &[]).await;
    let task = json!({"task": "RUN: sleep 2; echo kept", "wait_seconds": 4});
    let running = call(&client, "run_task", task);
    let disconnecting = async {
        server.wait_for_log("task started").await;
        proxy.disconnect();
    };
    let (run, ()) = tokio::join!(running, disconnecting);
    let status = run["status"].as_str();
    assert!(matches!(status, Some("unknown" | "running")), "{run}");
    proxy.reconnect();
    let ended = call_with_id(&client, "wait_task", &run["task_id"]).await;
    assert_eq!(ended["last_output"], "kept", "{ended}");
}

#[tokio::test]
async fn retry_after_an_outage_starts_the_task_once() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let client = client_with(&proxy.real, &[]).await;
    let key = Uuid::new_v4().to_string();
    let task = json!({"task": "RUN: echo ran >> log; cat log", "idempotency_key": key});
    proxy.disconnect();
    assert_error(&client, "run_task", task.clone(), "does not answer").await;
    proxy.reconnect();
    let first = call(&client, "run_task", task.clone()).await;
    let again = call(&client, "run_task", task).await;
    assert_eq!(first["task_id"], again["task_id"]);
    assert_eq!(again["last_output"], "ran");
}

#[tokio::test]
async fn task_with_a_slow_model_is_running() {
    let Some(client) = client().await else { return };
    let task = "SLEEP: 4\nSAY: slow but sure";
    let run = call!(client, "run_task", {"task": task, "wait_seconds": 1});
    assert_has!(run, {"status": "running", "steps": 0});
    let ended = call_with_id(&client, "wait_task", &run["task_id"]).await;
    assert_has!(ended, {"status": "finished", "result": "slow but sure"});
}

#[tokio::test]
async fn task_with_a_slow_model_can_be_cancelled() {
    let Some(client) = client().await else { return };
    let run = call!(client, "run_task", {"task": "SLEEP: 20\nSAY: never", "wait_seconds": 1});
    call_with_id(&client, "cancel_task", &run["task_id"]).await;
    wait_for_status(&client, &run["task_id"], "cancelled").await;
    let result = call_with_id(&client, "get_task_result", &run["task_id"]).await;
    assert!(result.get("result").is_none(), "{result}");
}

#[tokio::test]
async fn task_deleted_by_another_client_is_not_found() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[]).await;
    let run = run_task(&client, "SAY: x").await;
    let path = format!("/api/conversations/{}", run["task_id"].as_str().unwrap());
    agent_server(&real, "DELETE", &path, Value::Null).await;
    let gone = tool_error!(client, "wait_task", {"task_id": run["task_id"]});
    assert_starts_with(&gone, "There is no task");
}
