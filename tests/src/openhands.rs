//! The OpenHands server in front of a real agent server. Its model follows the prompt as a script:
//! one directive a line, one turn each.

/// `call!(client, "tool", {"argument": 1})`, as [`call`].
macro_rules! call {
    ($client:expr, $tool:expr, $arguments:tt) => {
        call(&$client, $tool, serde_json::json!($arguments)).await
    };
}

/// `refusal!(client, "tool", {"argument": 1})`, as [`refusal`].
macro_rules! refusal {
    ($client:expr, $tool:expr, $arguments:tt) => {
        refusal(&$client, $tool, serde_json::json!($arguments)).await
    };
}

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

use crate::harness::real::{OpenHands, openhands};
use crate::harness::{Session, assert_contains, eventually, http_client, stdio_client};

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
    let request = http_client().request(method.parse().unwrap(), format!("{}{path}", real.url));
    let request = request.header("X-Session-API-Key", &real.api_key);
    let request = if body.is_null() {
        request
    } else {
        request.json(&body)
    };
    request.send().await.unwrap().json().await.unwrap()
}

/// A client of our server over stdio; `None` where there is no agent server.
async fn client() -> Option<Client> {
    Some(stdio_client(NAME, &env(&openhands()?)).await)
}

/// One client over HTTP and one over stdio; none where there is no agent server.
async fn both() -> Vec<Session> {
    let Some(real) = openhands() else {
        return vec![];
    };
    let env = env(&real);
    let over_http = Session::start(NAME, &env).await;
    vec![over_http, Session::stdio(NAME, &env).await]
}

/// What a tool returns.
async fn call(client: &Client, tool: &str, arguments: Value) -> Value {
    let result = client.call_tool(tool, &arguments).await.unwrap();
    assert!(!result.is_error, "{}", result.text());
    let structured = result.structured_content.unwrap();
    assert_eq!(structured.get(), result.content[0].text.as_ref().unwrap());
    serde_json::from_str(structured.get()).unwrap()
}

/// Returns the result of a tool whose only argument is a task.
async fn on(client: &Client, tool: &str, id: &Value) -> Value {
    call(client, tool, json!({"task_id": id})).await
}

/// Runs a task to its end.
async fn run_task(client: &Client, task: &str) -> Value {
    call(client, "run_task", json!({"task": task})).await
}

/// Starts a task and waits for nothing.
async fn start_task(client: &Client, task: &str) -> Value {
    call(client, "run_task", json!({"task": task, "wait_seconds": 0})).await
}

/// What a tool says that it cannot do.
async fn refusal(client: &Client, tool: &str, arguments: Value) -> String {
    let result = client.call_tool(tool, &arguments).await.unwrap();
    assert!(result.is_error, "{}", result.text());
    result.text()
}

/// Asserts that a tool cannot do it, and that it says so in these words among others.
async fn refuses(client: &Client, tool: &str, arguments: Value, words: &str) {
    assert_contains(&refusal(client, tool, arguments).await, words);
}

/// Asks for the status until it is `status`.
async fn until(client: &Client, id: &Value, status: &str) -> Value {
    until_that(client, id, |state| state["status"] == status).await
}

/// Asks for the status until it is as expected.
async fn until_that(client: &Client, id: &Value, expected: impl Fn(&Value) -> bool) -> Value {
    let state = async || Some(on(client, "get_task_status", id).await).filter(&expected);
    eventually("the status", state).await
}
