//! Calls that run as tasks: the extension `io.modelcontextprotocol/tasks` and the experimental tasks of
//! 2025-11-25, over HTTP, over stdio and in memory.

mod bounds;
mod client;
mod experimental;
mod extension;

use serde_json::{Value, json};

use crate::harness::eventually;
use client::Client;

/// The capabilities of a client with the extension.
fn capabilities() -> Value {
    json!({"elicitation": {}, "sampling": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

impl Client {
    /// The result of a request; panics if the response is an error.
    async fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        match answer.get("result") {
            Some(result) => result.clone(),
            None => panic!("no result: {answer}"),
        }
    }

    /// Sends a request that must get the error `code`.
    async fn refused(&mut self, code: i32, method: &str, params: Value) {
        let answer = self.ask(method, params).await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }

    /// The result of `tools/call`.
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.result("tools/call", params).await
    }

    /// Polls until the task has this status.
    async fn until(&mut self, task: &Value, status: &str) -> Value {
        eventually(status, async || {
            let found = self.result("tasks/get", json!({"taskId": task})).await;
            let mut ends = ["completed", "failed", "cancelled"].iter();
            let has_ended = ends.any(|end| found["status"] == *end);
            assert!(found["status"] == status || !has_ended, "{status}: {found}");
            (found["status"] == status).then_some(found)
        })
        .await
    }
}

/// The text of a `CallToolResult`.
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// The user's answer to a form.
fn accept(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}
