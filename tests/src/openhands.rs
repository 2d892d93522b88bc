//! The OpenHands server in front of a real agent server. Its model follows the prompt as a script:
//! one directive a line, one turn each.

mod asking;
mod budgets;
mod confirming;
mod control;
mod gate;
mod line;
mod mcp_servers;
mod original;
mod outage;
mod parallel;
mod prompts;
mod reading;
mod resources;
mod small;
mod sockets;
mod states;
mod talking;
mod tasks;
mod workspaces;

use mcp_client::Client;
use serde_json::{Value, json};

use crate::harness::real::{self, OpenHands};
use crate::harness::{Server, stdio, web};

const NAME: &str = "openhands-mcp-server";

/// The environment of a server in front of `real`.
fn env(real: &OpenHands) -> [(&'static str, &str); 3] {
    [
        ("OPENHANDS_URL", &real.url),
        ("OPENHANDS_API_KEY", &real.api_key),
        ("MCP_TOOLSETS", "all"),
    ]
}

/// The same with more variables.
fn env_with<'a>(
    real: &'a OpenHands,
    more: &[(&'static str, &'a str)],
) -> Vec<(&'static str, &'a str)> {
    let mut env = env(real).to_vec();
    env.extend(more);
    env
}

/// Asks the agent server itself, as somebody else would.
async fn direct(real: &OpenHands, method: &str, path: &str, body: Value) -> Value {
    let request = web().request(method.parse().unwrap(), format!("{}{path}", real.url));
    let request = request.header("X-Session-API-Key", &real.api_key);
    let request = if body.is_null() {
        request
    } else {
        request.json(&body)
    };
    request.send().await.unwrap().json().await.unwrap()
}

/// A server in front of the real agent server, over stdio; `None` where there is no agent server.
async fn child() -> Option<Client> {
    child_with(&[]).await
}

/// The same with more variables.
async fn child_with(more: &[(&'static str, &str)]) -> Option<Client> {
    let real = real::openhands()?;
    Some(stdio(NAME, &env_with(&real, more)).await)
}

/// The same server over HTTP and over stdio.
struct Both {
    clients: [Client; 2],
    _server: Server,
}

async fn both() -> Option<Both> {
    let real = real::openhands()?;
    let server = Server::start(NAME, &env(&real)).await;
    let clients = [server.client().await, stdio(NAME, &env(&real)).await];
    Some(Both {
        clients,
        _server: server,
    })
}

/// Starts a task without waiting for it; its id.
async fn start(client: &Client, script: impl Into<String>) -> Value {
    let task = json!({"task": script.into(), "wait_seconds": 0});
    call(client, "run_task", task).await["task_id"].clone()
}

/// What a tool returns.
async fn call(client: &Client, tool: &str, arguments: Value) -> Value {
    let result = client.call_tool(tool, &arguments).await.unwrap();
    assert!(!result.is_error, "{}", result.text());
    let structured = result.structured_content.unwrap();
    assert_eq!(structured.get(), result.content[0].text.as_ref().unwrap());
    serde_json::from_str(structured.get()).unwrap()
}

/// What a tool says that it cannot do.
async fn refusal(client: &Client, tool: &str, arguments: Value) -> String {
    let result = client.call_tool(tool, &arguments).await.unwrap();
    assert!(result.is_error, "{}", result.text());
    result.text()
}

/// Asks for the status until it is `status`.
async fn until(client: &Client, id: &Value, status: &str) -> Value {
    until_that(client, id, |state| state["status"] == status).await
}

/// Asks for the status until it is as expected.
async fn until_that(client: &Client, id: &Value, expected: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..600 {
        last = call(client, "get_task_status", json!({"task_id": id})).await;
        if expected(&last) {
            return last;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("never as expected: {last}");
}
