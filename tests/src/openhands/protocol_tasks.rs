//! Tasks of the protocol, in both forms: each is an OpenHands task with the same id.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::gate::Gate;
use super::{NAME, call_with_id, client_with, env, server_with, wait_for_status};
use crate::harness::real::openhands;
use crate::harness::{Server, eventually};

/// Sends a request of the modern era, from a client that supports tasks.
async fn modern(server: &Server, method: &str, name: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":
            {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
        ("mcp-name", name),
    ];
    let reply = server.post_with(&headers, body.to_string()).await;
    reply.json()["result"].clone()
}

#[tokio::test]
async fn long_task_continues_as_a_task_of_the_protocol_with_its_result() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let gate = Gate::new();
    let task = format!("RUN: {}; echo late", gate.pass());
    let params = json!({"name": "run_task", "arguments": {"task": task, "wait_seconds": 1}});
    let created = modern(&server, "tools/call", "run_task", params).await;
    assert_eq!(created["resultType"], "task", "{created}");
    let id = created["taskId"].as_str().unwrap().to_owned();
    let read = async || modern(&server, "tasks/get", &id, json!({"taskId": id})).await;
    assert_eq!(read().await["status"], "working");
    gate.open();
    let ended = async || Some(read().await).filter(|task| task["status"] == "completed");
    let ended = eventually("the end of the task", ended).await;
    let result = &ended["result"]["structuredContent"];
    assert_has!(*result, {"status": "finished", "last_output": "late"});
    assert_eq!(result["task_id"].as_str().unwrap().replace('-', ""), id);
}

#[tokio::test]
async fn task_of_2025_11_25_waits_for_the_end() {
    let Some(real) = openhands() else { return };
    let (server, _client) = server_with(&real, &[]).await;
    let revision = ("mcp-protocol-version", "2025-11-25");
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"}}});
    let reply = server.post_with(&[revision], hello.to_string()).await;
    let session = reply.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let ask = async |method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let headers = [revision, ("mcp-session-id", session.as_str())];
        let reply = server.post_with(&headers, body.to_string()).await;
        reply.json()["result"].clone()
    };
    let params = json!({"name": "run_task", "task": {},
        "arguments": {"task": "RUN: sleep 2; echo slow", "wait_seconds": 0}});
    let created = ask("tools/call", params).await;
    let id = created["task"]["taskId"].clone();
    assert!(id.is_string(), "{created}");
    let result = ask("tasks/result", json!({"taskId": id})).await;
    assert_has!(result["structuredContent"], {"status": "finished", "last_output": "slow"});
}

#[tokio::test]
async fn stop_of_our_server_leaves_the_task_running() {
    let Some(real) = openhands() else { return };
    let mut server = Server::start(NAME, &env(&real)).await;
    let gate = Gate::new();
    let task = format!("RUN: {}; echo survived", gate.pass());
    let params = json!({"name": "run_task", "arguments": {"task": task, "wait_seconds": 1}});
    let created = modern(&server, "tools/call", "run_task", params).await;
    let id = created["taskId"].clone();
    let pid = Pid::from_raw(server.pid().try_into().unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    server.wait_for_exit().await;
    gate.open();
    let client = client_with(&real, &[]).await;
    // The id of the protocol's task is that of the task.
    wait_for_status(&client, &id, "finished").await;
    let result = call_with_id(&client, "get_task_result", &id).await;
    assert_eq!(result["last_output"], "survived");
}
