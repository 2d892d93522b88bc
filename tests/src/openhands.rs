//! The OpenHands server with a real agent server. Its scripted model follows the lines of the prompt:
//! one directive and one turn for each line.

/// `call!(client, "tool", {"argument": 1})`, as [`call`].
macro_rules! call {
    ($client:expr, $tool:expr, $arguments:tt) => {
        call(&$client, $tool, serde_json::json!($arguments)).await
    };
}

/// `tool_error!(client, "tool", {"argument": 1})`, as [`tool_error`].
macro_rules! tool_error {
    ($client:expr, $tool:expr, $arguments:tt) => {
        tool_error(&$client, $tool, serde_json::json!($arguments)).await
    };
}

/// `assert_error!(client, "tool", {"argument": 1}, "part")`, as [`assert_error`].
macro_rules! assert_error {
    ($client:expr, $tool:expr, $arguments:tt, $part:expr) => {
        assert_error(&$client, $tool, serde_json::json!($arguments), $part).await
    };
}

mod app_server;
mod budgets;
mod callbacks;
mod cancellation;
mod changes;
mod confirmation;
mod errors;
mod faults;
mod git_host;
mod mcp_servers;
mod parallel;
mod principals;
mod protocol_tasks;
mod read_tools;
mod repositories;
mod resources;
mod restarts;
mod tasks;
mod tools;
mod workspaces;

use std::path::PathBuf;

use mcp_client::Client;
use serde_json::{Value, json};

use crate::harness::real::{OpenHands, openhands};
use crate::harness::{Server, Session, assert_contains, eventually, http_client, stdio_client};

const NAME: &str = "openhands-mcp-server";

/// The environment of a server in front of `real`, which lets a busy one take longer for a call than is usual.
fn env(real: &OpenHands) -> [(&'static str, &str); 4] {
    [
        ("OPENHANDS_URL", &real.url),
        ("OPENHANDS_API_KEY", &real.api_key),
        ("MCP_TOOLSETS", "all"),
        ("MCP_CALL_TIMEOUT", "60"),
    ]
}

/// The environment with more variables.
fn env_with<'a>(
    real: &'a OpenHands,
    more: &[(&'static str, &'a str)],
) -> Vec<(&'static str, &'a str)> {
    [env(real).as_slice(), more].concat()
}

/// Sends a request to the agent server, as another client would.
async fn agent_server(real: &OpenHands, method: &str, path: &str, body: Value) -> Value {
    let request = http_client().request(method.parse().unwrap(), format!("{}{path}", real.url));
    let request = request.header("X-Session-API-Key", &real.api_key);
    let request = match body {
        Value::Null => request,
        body => request.json(&body),
    };
    request.send().await.unwrap().json().await.unwrap()
}

/// Adds an agent profile with this model to the agent server.
async fn add_agent(real: &OpenHands, name: &str, llm: Value) {
    let profile = json!({"include_secrets": true, "llm": llm});
    agent_server(real, "POST", &format!("/api/profiles/{name}"), profile).await;
    let agent = json!({"agent_kind": "openhands", "llm_profile_ref": name});
    agent_server(real, "POST", &format!("/api/agent-profiles/{name}"), agent).await;
}

async fn remove_agent(real: &OpenHands, name: &str) {
    for kind in ["agent-profiles", "profiles"] {
        agent_server(real, "DELETE", &format!("/api/{kind}/{name}"), Value::Null).await;
    }
}

/// Reads a conversation from the agent server.
async fn conversation(real: &OpenHands, id: &Value) -> Value {
    let path = format!("/api/conversations/{}", id.as_str().unwrap());
    agent_server(real, "GET", &path, Value::Null).await
}

/// The directory of a task. The agent server is on this machine.
async fn directory(real: &OpenHands, id: &Value) -> PathBuf {
    let task = conversation(real, id).await;
    task["workspace"]["working_dir"].as_str().unwrap().into()
}

/// A client of our server over stdio; `None` without an agent server.
async fn client() -> Option<Client> {
    Some(client_with(&openhands()?, &[]).await)
}

/// A client of our server over stdio, with more environment variables.
async fn client_with(real: &OpenHands, more: &[(&'static str, &str)]) -> Client {
    stdio_client(NAME, &env_with(real, more)).await
}

/// Our server over HTTP, with more environment variables, and a client of it.
async fn server_with(real: &OpenHands, more: &[(&'static str, &str)]) -> (Server, Client) {
    let server = Server::start(NAME, &env_with(real, more)).await;
    let client = server.client().await;
    (server, client)
}

/// One client over HTTP and one over stdio; empty without an agent server.
async fn both_transports() -> Vec<Session> {
    let Some(real) = openhands() else {
        return vec![];
    };
    let env = env(&real);
    let over_http = Session::start(NAME, &env).await;
    vec![over_http, Session::stdio(NAME, &env).await]
}

/// The arguments with more members.
fn with(mut arguments: Value, more: Value) -> Value {
    let members = arguments.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    arguments
}

/// Tools that return when a run has ended, or after `wait_seconds`.
const WAITING: [&str; 5] = [
    "run_task",
    "send_message",
    "resume_task",
    "respond_confirmation",
    "wait_task",
];

/// The result of a tool. Without `wait_seconds` it is the one after the end of the run, also with a busy agent server.
async fn call(client: &Client, tool: &str, arguments: Value) -> Value {
    let mut result = call_once(client, tool, &arguments).await;
    let waits = arguments["wait_seconds"].is_null() && WAITING.contains(&tool);
    for _ in 0..5 {
        let runs = matches!(
            result["status"].as_str(),
            Some("queued" | "running" | "unknown")
        );
        let next = result["next"].as_str().unwrap_or_default();
        let is_left =
            ["verify command runs", "Call get_task_result for"].map(|text| next.contains(text));
        if !waits || !(runs || is_left.contains(&true)) {
            break;
        }
        let id = json!({"task_id": result["task_id"]});
        result = call_once(client, "wait_task", &id).await;
    }
    result
}

async fn call_once(client: &Client, tool: &str, arguments: &Value) -> Value {
    let result = client.call_tool(tool, arguments).await.unwrap();
    assert!(!result.is_error, "{}", result.text());
    let structured = result.structured_content.unwrap();
    assert_eq!(structured.get(), result.content[0].text.as_ref().unwrap());
    serde_json::from_str(structured.get()).unwrap()
}

/// The result of a tool whose only argument is a task.
async fn call_with_id(client: &Client, tool: &str, id: &Value) -> Value {
    call(client, tool, json!({"task_id": id})).await
}

/// Runs a task to its end.
async fn run_task(client: &Client, task: &str) -> Value {
    call(client, "run_task", json!({"task": task})).await
}

/// Starts a task without waiting for it.
async fn start_task(client: &Client, task: &str) -> Value {
    call(client, "run_task", json!({"task": task, "wait_seconds": 0})).await
}

/// Reads something in parts, each of which begins where the one before says so: `next_…` is the next value of the
/// argument.
async fn parts(client: &Client, tool: &str, mut arguments: Value, argument: &str) -> Vec<Value> {
    let mut parts = Vec::new();
    loop {
        let part = call(client, tool, arguments.clone()).await;
        arguments[argument] = part[format!("next_{argument}")].clone();
        parts.push(part);
        if arguments[argument].is_null() {
            return parts;
        }
    }
}

/// The texts of a field of all parts.
fn joined(parts: &[Value], field: &str) -> String {
    parts
        .iter()
        .map(|part| part[field].as_str().unwrap())
        .collect()
}

/// The error message of a tool.
async fn tool_error(client: &Client, tool: &str, arguments: Value) -> String {
    let result = client.call_tool(tool, &arguments).await.unwrap();
    assert!(result.is_error, "{}", result.text());
    result.text()
}

/// Asserts that a tool fails with `part` in its message.
async fn assert_error(client: &Client, tool: &str, arguments: Value, part: &str) {
    assert_contains(&tool_error(client, tool, arguments).await, part);
}

/// Polls until the status of a task is `status`.
async fn wait_for_status(client: &Client, id: &Value, status: &str) -> Value {
    wait_for_state(client, id, |state| state["status"] == status).await
}

/// Waits until the agent of a task has taken its first step. Before that the task may not run at the agent server yet.
async fn wait_for_first_step(client: &Client, id: &Value) {
    wait_for_state(client, id, |state| state["steps"] == 1).await;
}

/// Polls until the state of a task is as expected.
async fn wait_for_state(client: &Client, id: &Value, expected: impl Fn(&Value) -> bool) -> Value {
    let state = async || Some(call_with_id(client, "get_task_status", id).await).filter(&expected);
    eventually("the status", state).await
}
