//! `n8n-mcp-server`: against a real n8n, and against one that misbehaves.

/// `done!(client, "tool", {"argument": 1})`, as [`done`].
macro_rules! done {
    ($client:expr, $tool:expr, $arguments:tt) => {
        done(&$client, $tool, serde_json::json!($arguments)).await
    };
}

/// `refused!(client, "tool", {"argument": 1}, "part of the message")`, as [`assert_refused`].
macro_rules! refused {
    ($client:expr, $tool:expr, $arguments:tt) => {
        refused!($client, $tool, $arguments, "")
    };
    ($client:expr, $tool:expr, $arguments:tt, $part:expr) => {
        assert_refused(&$client, $tool, serde_json::json!($arguments), $part).await
    };
}

mod duplicating;
mod faults;
mod lost_answers;
mod mcp_server;
mod paging;
mod publish_check;
mod real;

use mcp_client::{CallToolResult, Client};
use serde_json::Value;

use crate::harness::{FakeService, Server, Session, assert_contains};

const SERVER: &str = "n8n-mcp-server";

/// A client, or a test's environment with one.
trait AsClient {
    fn as_client(&self) -> &Client;
}

impl AsClient for Client {
    fn as_client(&self) -> &Client {
        self
    }
}

impl AsClient for Session {
    fn as_client(&self) -> &Client {
        self
    }
}

/// A server with all toolsets in front of a fake n8n.
async fn server_with_all(fake: &FakeService) -> Server {
    let env = [("N8N_URL", fake.url.as_str()), ("N8N_API_KEY", "k")];
    Server::with_args(SERVER, &["--toolsets", "all"], &env).await
}

/// The structured result of a call that succeeds.
async fn done(client: &impl AsClient, tool: &str, arguments: Value) -> Value {
    let result = call(client, tool, arguments).await;
    assert!(!result.is_error, "{tool}: {}", result.text());
    serde_json::from_str(result.structured_content.expect("structured").get()).unwrap()
}

/// The message of a call that fails, which holds `part`.
async fn assert_refused(
    client: &impl AsClient,
    tool: &str,
    arguments: Value,
    part: &str,
) -> String {
    let result = call(client, tool, arguments).await;
    assert!(result.is_error, "{tool}: {}", result.text());
    assert_contains(&result.text(), part);
    result.text()
}

/// Calls that fail, as rows of the tool, its arguments and a part of the message.
async fn assert_all_refused(client: &impl AsClient, table: Value) {
    let table: Vec<(String, Value, String)> = serde_json::from_value(table).unwrap();
    for (tool, arguments, part) in table {
        assert_refused(client, &tool, arguments, &part).await;
    }
}

/// The rows of a table, whose columns are separated by bars.
fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = table.trim().lines();
    rows.map(|row| row.split(" | ").collect())
}

/// The arguments of a call with the value that its question asks to repeat.
async fn agreed(client: &impl AsClient, tool: &str, mut arguments: Value) -> Value {
    let part = "call again with confirm: \"";
    let question = assert_refused(client, tool, arguments.clone(), part).await;
    let (_, value) = question.split_once(part).unwrap();
    arguments["confirm"] = value.split('"').next().into();
    arguments
}

async fn call(client: &impl AsClient, tool: &str, arguments: Value) -> CallToolResult {
    // Boxed: the future of a call is large, and a test may hold many.
    let called = Box::pin(client.as_client().call_tool(tool, &arguments));
    called.await.unwrap()
}
