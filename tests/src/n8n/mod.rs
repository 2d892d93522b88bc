//! `n8n-mcp-server`: against a real n8n, and against one that misbehaves.

mod faults;
mod older;
mod real;
mod site;
mod starting;

use mcp_client::{CallToolResult, Client};
use serde_json::Value;

const SERVER: &str = "n8n-mcp-server";

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
