//! Tasks of the protocol, in both forms: their ids name the tasks of OpenHands, so they survive a restart.

use mcp_client::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use uuid::Uuid;

use super::principals::{ALICE, BOB, tokens};
use super::tools::{Gate, Proxy};
use super::workspaces::TestDirectory;
use super::{NAME, call, client_with, env, env_with, run_task};
use crate::harness::real::openhands;
use crate::harness::{Server, eventually, modern_meta, rpc, wait_until};

const REVISION: (&str, &str) = ("mcp-protocol-version", "2025-11-25");

/// Sends a request of the modern era with this bearer token, from a client that supports tasks. Returns the response.
async fn modern(server: &Server, token: &str, method: &str, mut params: Value) -> Value {
    let token = format!("Bearer {token}");
    let name = params["taskId"].as_str().or(params["name"].as_str());
    let name = name.unwrap().to_owned();
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    params["_meta"] = modern_meta(capabilities);
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
        ("mcp-name", &name),
        ("authorization", &token),
    ];
    let body = rpc(method, params).to_string();
    server.post_with(&headers, body).await.json()
}

/// Sends a request in a session of 2025-11-25. Returns the response.
async fn legacy(server: &Server, session: &str, method: &str, params: Value) -> Value {
    let headers = [REVISION, ("mcp-session-id", session)];
    let body = rpc(method, params).to_string();
    server.post_with(&headers, body).await.json()
}

/// Ends the server with this signal and starts it again.
async fn restarted(mut server: Server, env: &[(&str, &str)], signal: Signal) -> Server {
    let pid = Pid::from_raw(server.pid().try_into().unwrap());
    kill(pid, signal).unwrap();
    server.wait_for_exit().await;
    Server::start(NAME, env).await
}

/// The response to a request about a task, over the modern era. A busy agent server may not say in time whether there
/// is one.
async fn verdict(server: &Server, token: &str, method: &str, id: &Value) -> Value {
    let told = async || {
        let reply = modern(server, token, method, json!({"taskId": id})).await;
        let is_told = reply["error"].is_null() || reply["error"]["code"] == -32602;
        is_told.then_some(reply)
    };
    eventually("the task", told).await
}

/// The task, over the modern era.
async fn known(server: &Server, token: &str, id: &Value) -> Value {
    let reply = verdict(server, token, "tasks/get", id).await;
    assert!(reply["error"].is_null(), "{id}: {reply}");
    reply["result"].clone()
}

async fn assert_unknown(server: &Server, token: &str, method: &str, id: &Value) {
    let refused = verdict(server, token, method, id).await;
    assert_eq!(refused["error"]["code"], -32602, "{id}: {refused}");
}

/// The rows of the tasks with the first words of this one, which are its own.
async fn listed(client: &Client, task: &str) -> Vec<Value> {
    let mut tasks = call(client, "list_tasks", json!({"limit": 50})).await;
    let rows = tasks["tasks"].as_array_mut().unwrap();
    rows.retain(|row| {
        row["task"]
            .as_str()
            .unwrap_or_default()
            .starts_with(&task[..40])
    });
    std::mem::take(rows)
}

/// The task after its end, over the modern era.
async fn ended_modern(server: &Server, id: &Value) -> Value {
    let ended = async || {
        let task = known(server, "", id).await;
        Some(task).filter(|task| task["status"] != "working")
    };
    eventually("the end of the task", ended).await
}

#[tokio::test]
async fn tasks_of_both_forms_survive_a_stop_and_a_kill() {
    let Some(real) = openhands() else { return };
    // Tasks of other tests run beside these.
    let env = env_with(&real, &[("OPENHANDS_MAX_PARALLEL", "50")]);
    let server = Server::start(NAME, &env).await;
    let client = server.client().await;
    let gate = Gate::new();
    let text = format!("RUN: {}; echo survived", gate.pass());
    let key = Uuid::new_v4().to_string();
    let plain = json!({"task": text, "wait_seconds": 1});
    let keyed = json!({"task": text, "wait_seconds": 1, "idempotency_key": key});
    let several = json!({"wait_seconds": 1, "tasks":
        [{"task": text}, {"task": text, "idempotency_key": format!("{key}-2")}]});
    let create = async |tool: &str, arguments: &Value| {
        let params = json!({"name": tool, "arguments": arguments});
        let created = modern(&server, "", "tools/call", params).await["result"].clone();
        assert_eq!(created["resultType"], "task", "{created}");
        created["taskId"].clone()
    };
    let first = create("run_task", &plain).await;
    let started = call(&client, "run_task", keyed.clone()).await;
    let ids = [
        first,
        create("run_task", &keyed).await,
        create("wait_task", &json!({"task_id": started["task_id"]})).await,
        create("run_parallel_tasks", &several).await,
    ];
    // Those of 2025-11-25, whose answer comes before the work. That with the key is at work already.
    let session = server.session("2025-11-25", &[REVISION]).await;
    let before = listed(&client, &text).await.len();
    let mut older = Vec::new();
    for arguments in [&plain, &keyed] {
        let params = json!({"name": "run_task", "task": {}, "arguments": arguments});
        let created = legacy(&server, &session, "tools/call", params).await;
        let created = created["result"]["task"].clone();
        assert_eq!(created["status"], "working", "{created}");
        older.push(created["taskId"].clone());
    }
    wait_until("the start of the task", async || {
        listed(&client, &text).await.len() > before
    })
    .await;
    // A server that is told to stop leaves its tasks running, too.
    let server = restarted(server, &env, Signal::SIGTERM).await;
    for id in &ids {
        assert_has!(known(&server, "", id).await, {"status": "working", "taskId": id});
    }
    // What was found stays found.
    let server = restarted(server, &env, Signal::SIGKILL).await;
    let session = server.session("2025-11-25", &[REVISION]).await;
    for id in &older {
        // A busy agent server may not say in time whether there is one.
        let known = async || {
            let ask = json!({"taskId": id});
            let reply = legacy(&server, &session, "tasks/get", ask).await;
            reply.get("result").cloned()
        };
        let task = eventually("the task", known).await;
        assert_has!(task, {"status": "working", "taskId": id});
    }
    gate.open();
    for id in &ids {
        let ended = ended_modern(&server, id).await;
        assert_eq!(ended["status"], "completed", "{ended}");
        let result = &ended["result"]["structuredContent"];
        match result["tasks"].as_array() {
            Some(tasks) => {
                assert_eq!(tasks.len(), 2);
                assert!(
                    tasks.iter().all(|task| task["status"] == "finished"),
                    "{result}"
                );
            }
            None => assert_has!(*result, {"status": "finished", "last_output": "survived"}),
        }
    }
    for id in &older {
        let ask = json!({"taskId": id});
        let result = legacy(&server, &session, "tasks/result", ask).await;
        let result = &result["result"]["structuredContent"];
        assert_has!(*result, {"status": "finished", "last_output": "survived"});
    }
}

#[tokio::test]
async fn only_its_principal_finds_and_cancels_a_task_after_a_kill() {
    let Some(real) = openhands() else { return };
    let place = TestDirectory::new();
    let tokens = tokens(&place, "alice");
    let env = env_with(&real, &[("MCP_TOKEN_FILE", &tokens)]);
    let server = Server::start(NAME, &env).await;
    let gate = Gate::new();
    let task = format!("RUN: {}", gate.pass());
    let params = json!({"name": "run_task", "arguments": {"wait_seconds": 1, "task": task}});
    let created = modern(&server, ALICE, "tools/call", params).await;
    let id = &created["result"]["taskId"];
    assert!(id.is_string(), "{created}");
    let server = restarted(server, &env, Signal::SIGKILL).await;
    for method in ["tasks/get", "tasks/cancel"] {
        assert_unknown(&server, BOB, method, id).await;
    }
    let hers = known(&server, ALICE, id).await;
    assert_eq!(hers["status"], "working", "{hers}");
    let cancelled = verdict(&server, ALICE, "tasks/cancel", id).await;
    assert!(cancelled["error"].is_null(), "{cancelled}");
    assert_eq!(known(&server, ALICE, id).await["status"], "cancelled");
    let client = server.client_with_token(ALICE).await;
    wait_until("the end of the OpenHands task", async || {
        let hers = listed(&client, &task).await;
        hers.iter().any(|row| row["status"] == "cancelled")
    })
    .await;
}

#[tokio::test]
async fn ids_without_a_task_are_unknown_and_cost_no_request() {
    let Some(real) = openhands() else { return };
    // Another server, since the one that has started a task looks at it after its end.
    let known = run_task(&client_with(&real, &[]).await, "FINISH: ok").await["task_id"].clone();
    let proxy = Proxy::start(real).await;
    let server = Server::start(NAME, &env(&proxy.real)).await;
    let read = format!("GET /api/conversations/{}", known.as_str().unwrap());
    let known = known.as_str().unwrap().replace('-', "");
    let digits = "0123456789abcdef".repeat(2);
    for id in [
        digits.clone(),
        format!("{digits}.run_task.n"),
        format!("{digits}.run_task"),
        format!("{digits}.run_task.{known}-{known}"),
        format!("{digits}.cancel_task.{known}"),
        format!("{digits}.no_such_tool.{known}"),
        format!("{digits}.wait_task.../{known}"),
    ] {
        assert_unknown(&server, "", "tasks/get", &json!(id)).await;
    }
    // Anybody can name many tasks.
    for (count, is_known) in [(20, true), (21, false)] {
        let id = vec![known.as_str(); count].join("-");
        let id = json!(format!("{digits}.run_parallel_tasks.{id}"));
        let before = proxy.count(&read);
        let reply = verdict(&server, "", "tasks/get", &id).await;
        assert_eq!(reply["error"].is_null(), is_known, "{reply}");
        let requests = proxy.count(&read) - before;
        assert_eq!(requests > 0, is_known, "{requests}");
        if is_known {
            // Nothing asks for the task any longer.
            let ended = ended_modern(&server, &id).await;
            assert_eq!(ended["status"], "completed", "{ended}");
        }
    }
}
