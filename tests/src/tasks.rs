//! Calls that go on as tasks: the extension `io.modelcontextprotocol/tasks` and the experimental
//! tasks of 2025-11-25, over HTTP, over stdio and in memory.

mod bounds;
mod client;
mod experimental;
mod extension;
mod listening;

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::eventually;
use client::Client;

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a client of the extension can do.
const KNOWS_TASKS: &str =
    r#"{"elicitation":{},"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

impl Client {
    /// The result of a request; panics where there is none.
    async fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        match answer.get("result") {
            Some(result) => result.clone(),
            None => panic!("no result: {answer}"),
        }
    }

    /// The code of the error that a request is refused with.
    async fn refused(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        match answer.get("error") {
            Some(error) => error["code"].clone(),
            None => panic!("no error: {answer}"),
        }
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
            let is_so = found["status"] == status;
            let has_ended = ["completed", "failed", "cancelled"]
                .iter()
                .any(|end| found["status"] == *end);
            assert!(is_so || !has_ended, "never {status}: {found}");
            is_so.then_some(found)
        })
        .await
    }
}

/// The text of a `CallToolResult`.
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// The user's consent to a form, with this in it.
fn accept(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}
