//! The Docker server, on real engines, and on a fake engine for faults that a real one cannot show.

/// `succeed!(client, "tool", {"argument": 1})`, as [`succeed`].
macro_rules! succeed {
    ($client:expr, $tool:expr, $arguments:tt) => {
        succeed(&$client, $tool, serde_json::json!($arguments)).await
    };
}

/// `fails_with!(client, "tool", {"argument": 1}, "text")`: calls [`fail`] and checks its error text.
macro_rules! fails_with {
    ($client:expr, $tool:expr, $arguments:tt, $($text:expr),+) => {{
        let error = fail(&$client, $tool, serde_json::json!($arguments)).await;
        $(crate::harness::assert_contains(&error, $text);)+
    }};
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

/// The result of `tools/call`, even if the tool failed.
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

/// The protocol error of a call with invalid arguments.
async fn invalid(server: &Server, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    let error = server.error("tools/call", params).await;
    assert_eq!(error["code"], -32602, "{tool} {arguments}: {error}");
    error
}

/// The error text of a tool that fails.
async fn fail(server: &Server, tool: &str, arguments: Value) -> String {
    let result = call(server, tool, arguments).await;
    assert_eq!(result["isError"], true, "{tool}: {result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}
