//! The Docker server: against a real engine, and against fakes for what no engine can be made to
//! do.

/// `succeed!(client, "tool", {"argument": 1})`, as [`succeed`].
macro_rules! succeed {
    ($client:expr, $tool:expr, $arguments:tt) => {
        succeed(&$client, $tool, serde_json::json!($arguments)).await
    };
}

/// `fail!(client, "tool", {"argument": 1})`, as [`fail`].
macro_rules! fail {
    ($client:expr, $tool:expr, $arguments:tt) => {
        fail(&$client, $tool, serde_json::json!($arguments)).await
    };
}

mod changing;
mod faults;
mod hostile;
mod lab;
mod logs;
mod proxy;
mod reading;
mod real;
mod secrets;

use serde_json::{Value, json};

use crate::harness::Server;

const SERVER: &str = "docker-mcp-server";

/// The result of `tools/call`, also where the tool failed.
async fn call(server: &Server, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    server.result("tools/call", params).await
}

/// The value that a tool returns.
async fn succeed(server: &Server, tool: &str, arguments: Value) -> Value {
    let result = call(server, tool, arguments).await;
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(result["isError"], false, "{tool}: {text}");
    serde_json::from_str(text).unwrap()
}

/// What a tool says that fails.
async fn fail(server: &Server, tool: &str, arguments: Value) -> String {
    let result = call(server, tool, arguments).await;
    assert_eq!(result["isError"], true, "{tool}: {result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}
