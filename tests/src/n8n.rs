//! `n8n-mcp-server`: against a real n8n, and against one that misbehaves.

/// `done!(client, "tool", {"argument": 1})`, as [`done`].
macro_rules! done {
    ($client:expr, $tool:expr, $arguments:tt) => {
        done(&$client, $tool, serde_json::json!($arguments)).await
    };
}

/// `refused!(client, "tool", {"argument": 1})`, as [`refused`].
macro_rules! refused {
    ($client:expr, $tool:expr, $arguments:tt) => {
        refused(&$client, $tool, serde_json::json!($arguments)).await
    };
}

mod faults;
mod older;
mod real;
mod site;
mod starting;

use mcp_client::{CallToolResult, Client};
use serde_json::Value;

use crate::harness::Session;

const SERVER: &str = "n8n-mcp-server";

/// A client of a server of its own, with this environment.
async fn session(env: &[(&str, &str)]) -> Session {
    Session::start(SERVER, env).await
}

/// The structured result of a call that worked.
async fn done(client: &Client, tool: &str, arguments: Value) -> Value {
    let result = call(client, tool, arguments).await;
    assert!(!result.is_error, "{tool}: {}", result.text());
    serde_json::from_str(result.structured_content.expect("structured").get()).unwrap()
}

/// The message of a call that did not.
async fn refused(client: &Client, tool: &str, arguments: Value) -> String {
    let result = call(client, tool, arguments).await;
    assert!(result.is_error, "{tool}: {}", result.text());
    result.text()
}

async fn call(client: &Client, tool: &str, arguments: Value) -> CallToolResult {
    // A call is large: on the heap a test may make many.
    Box::pin(client.call_tool(tool, &arguments)).await.unwrap()
}
