//! Tasks that fail, agent servers that refuse, do not answer or become unreachable for a while, and a slow model.

use std::time::Duration;

use mcp_client::EraChoice;
use serde_json::json;
use uuid::Uuid;

use super::resources::{UPDATED, subscribe, subscriber, uri, wait_for_updates};
use super::tools::{Gate, Proxy};
use super::{
    NAME, assert_error, call, call_with_id, client, client_with, run_task, server_with, start_task,
    tool_error, wait_for_status,
};
use crate::harness::real::openhands;
use crate::harness::{Server, assert_contains, assert_lacks, assert_starts_with};

#[tokio::test]
async fn model_failure_is_reported_and_results_are_kept() {
    let Some(client) = client().await else { return };
    let run = call!(client, "run_task", {"task": "RUN: echo so far\nHTTP: 500", "verify": "true"});
    assert_has!(run, {"status": "failed", "last_output": "so far", "verified": null});
    assert_starts_with(&run["error"], "The model did not answer");
    assert_contains(&run["next"], "resume_task");
    let id = &run["task_id"];
    let errors = call!(client, "get_task_events", {"task_id": id, "kinds": ["error"]});
    assert_eq!(errors["events"][0]["text"], "LLMServiceUnavailableError");
    // The text of the provider is not shown.
    for shown in [run.to_string(), errors.to_string()] {
        assert_lacks(&shown, "scripted failure");
    }
    let ended = call!(client, "send_message", {"task_id": id, "message": "FINISH: it works"});
    assert_has!(ended, {"status": "finished", "result": "it works", "error": null});
}

#[tokio::test]
async fn unknown_task_is_not_found() {
    let tools = "get_task_status get_task_result cancel_task wait_task get_task_changes \
                 get_task_events resume_task delete_task";
    let Some(client) = client().await else { return };
    for tool in tools.split(' ') {
        let id = Uuid::new_v4().to_string();
        let error = tool_error!(client, tool, {"task_id": id});
        assert_starts_with(&error, &format!("There is no task {id} "));
        assert_error!(client, tool, {"task_id": "../settings"}, "task_id: not a task id");
    }
}

#[tokio::test]
async fn wrong_key_degrades_and_a_new_key_file_recovers() {
    let Some(real) = openhands() else { return };
    let file = std::env::temp_dir().join(Uuid::new_v4().to_string());
    std::fs::write(&file, "wrong-key").unwrap();
    let path = file.to_str().unwrap();
    let env = [
        ("OPENHANDS_URL", &*real.url),
        ("OPENHANDS_API_KEY_FILE", path),
    ];
    let server = Server::start(NAME, &env).await;
    server.wait_for_status("degraded").await;
    let client = server.client().await;
    assert_error!(client, "run_task", {"task": "SAY: hi"}, "refuses the key");
    std::fs::write(&file, format!("{}\n", real.api_key)).unwrap();
    server.wait_for_status("online").await;
    let run = run_task(&client, "SAY: hi").await;
    assert_eq!(run["result"], "hi");
    let log = server.log();
    assert_lacks(&log, "wrong-key");
    assert_lacks(&log, &real.api_key);
    std::fs::remove_file(&file).unwrap();
}

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
    server.wait_for_status("degraded").await;
    let waiting = call_with_id(&client, "wait_task", id);
    let reconnecting = async {
        // Real time: at least one poll of the wait must fail, which no event reports.
        tokio::time::sleep(Duration::from_secs(1)).await;
        proxy.reconnect();
    };
    let (ended, ()) = tokio::join!(waiting, reconnecting);
    assert_has!(ended, {"status": "finished", "last_output": "survived"});
    server.wait_for_status("online").await;
    proxy.hang();
    let wait = json!({"task_id": id, "wait_seconds": 1});
    assert_error(&client, "wait_task", wait, "nothing is known").await;
}

#[tokio::test]
async fn change_during_an_outage_is_announced_after_it() {
    let Some(real) = openhands() else { return };
    let direct = client_with(&real, &[]).await;
    let proxy = Proxy::start(real).await;
    let (server, _) = server_with(&proxy.real, &[("MCP_LOG", "debug")]).await;
    let run = run_task(&direct, "SAY: ready").await;
    let id = &run["task_id"];
    let (client, mut updates) = subscriber(&server, EraChoice::Legacy).await;
    let events = [format!("{}/events", uri(id))];
    subscribe(&client, &events).await;
    wait_for_updates(&mut updates, &events).await;
    proxy.disconnect();
    // What was announced before, such as the last events of the run, is no news.
    server.wait_for_log("cannot poll the task").await;
    let mut news =
        || std::iter::from_fn(|| updates.try_recv().ok()).any(|(method, _)| method == UPDATED);
    news();
    call!(direct, "send_message", {"task_id": id, "message": "SAY: missed"});
    assert!(!news(), "announced while disconnected");
    proxy.reconnect();
    wait_for_updates(&mut updates, &events).await;
}

#[tokio::test]
async fn started_task_keeps_its_id_in_an_outage() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let (server, client) = server_with(&proxy.real, &[]).await;
    let gate = Gate::new();
    let task = format!("RUN: {}; echo kept", gate.pass());
    let task = json!({"task": task, "wait_seconds": 4});
    let running = call(&client, "run_task", task);
    let disconnecting = async {
        server.wait_for_log("task started").await;
        proxy.disconnect();
    };
    let (run, ()) = tokio::join!(running, disconnecting);
    let status = run["status"].as_str();
    assert!(matches!(status, Some("unknown" | "running")), "{run}");
    proxy.reconnect();
    gate.open();
    let ended = call_with_id(&client, "wait_task", &run["task_id"]).await;
    assert_eq!(ended["last_output"], "kept", "{ended}");
}

#[tokio::test]
async fn start_and_message_whose_answers_are_lost_are_one() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let client = client_with(&proxy.real, &[]).await;
    let create = "POST /api/conversations HTTP";
    proxy.lose_response(create);
    let run = run_task(&client, "RUN: echo ran >> log; cat log").await;
    assert_has!(run, {"status": "finished", "last_output": "ran"});
    assert_eq!(proxy.count(create), 2);
    let id = &run["task_id"];
    proxy.lose_response("/events HTTP");
    let sent = call!(client, "send_message", {"task_id": id, "message": "SAY: second"});
    assert_has!(sent, {"status": "finished", "result": "second"});
    let messages = call!(client, "get_task_events", {"task_id": id, "kinds": ["message"]});
    let messages = messages["events"].as_array().unwrap().iter();
    let texts = messages.filter(|message| message["text"] == "user: SAY: second");
    assert_eq!(texts.count(), 1);
}

#[tokio::test]
async fn task_with_a_slow_model_can_be_cancelled() {
    let Some(client) = client().await else { return };
    let run = call!(client, "run_task", {"task": "SLEEP: 40\nSAY: never", "wait_seconds": 1});
    call_with_id(&client, "cancel_task", &run["task_id"]).await;
    wait_for_status(&client, &run["task_id"], "cancelled").await;
    let result = call_with_id(&client, "get_task_result", &run["task_id"]).await;
    assert!(result.get("result").is_none(), "{result}");
}
