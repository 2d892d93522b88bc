//! A conversation over stdio, message by message: questions, progress, tasks, cancellation.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{SERVER, variables};
use crate::harness::{binary, initialize, response, rpc};
use crate::stdio::StdioServer;

pub(super) struct StdioSession {
    server: StdioServer,
    last: u64,
}

impl StdioSession {
    /// After the handshake of a client that can ask its user.
    pub(super) async fn open(host: &str, env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(binary(SERVER));
        command.arg("--stdio").env_clear();
        Self::with(command, host, env).await
    }

    /// The same with a server that is started otherwise.
    pub(super) async fn with(command: Command, host: &str, env: &[(&str, &str)]) -> Self {
        let server = StdioServer::spawn(command, &variables(host, env));
        let mut session = Self { server, last: 0 };
        let hello = initialize("2025-11-25")["params"].take();
        let id = session.ask("initialize", hello).await;
        session.answer(id).await;
        session
            .say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        session
    }

    /// Calls a tool, with progress under the id of the call, which is returned.
    pub(super) async fn start(&mut self, tool: &str, arguments: Value) -> u64 {
        let token = self.last + 1;
        let meta = json!({"progressToken": token});
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        self.ask("tools/call", params).await
    }

    /// The same as a task; its id.
    pub(super) async fn start_task(&mut self, tool: &str, arguments: Value) -> String {
        let params = json!({"name": tool, "arguments": arguments, "task": {"ttl": 60_000}});
        let id = self.ask("tools/call", params).await;
        let created = self.answer(id).await;
        let task = created["result"]["task"]["taskId"].as_str();
        task.unwrap_or_else(|| panic!("{created}")).to_owned()
    }

    /// A request; its id.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let mut request = rpc(method, params);
        request["id"] = json!(self.last);
        self.say(request).await;
        self.last
    }

    pub(super) async fn say(&mut self, message: Value) {
        self.server.send(message.to_string()).await;
    }

    /// The next message with this method.
    pub(super) async fn until(&mut self, method: &str) -> Value {
        loop {
            let message = self.server.message().await;
            if message["method"] == method {
                return message;
            }
            assert!(message["method"].is_string(), "{message}");
        }
    }

    /// The answer to a request; skips other messages.
    pub(super) async fn answer(&mut self, id: u64) -> Value {
        self.answer_with_progress(id).await.0
    }

    /// The answer to a request, and the progress before it.
    pub(super) async fn answer_with_progress(&mut self, id: u64) -> (Value, Vec<Value>) {
        let mut progress = Vec::new();
        loop {
            let message = self.server.message().await;
            if message["id"] == id && message["method"].is_null() {
                return (message, progress);
            }
            if message["method"] == "notifications/progress" {
                progress.push(message["params"].clone());
            }
        }
    }

    /// Answers the server's next question.
    pub(super) async fn reply(&mut self, result: Value) {
        let question = self.until("elicitation/create").await;
        self.say(response(&question["id"], "result", result)).await;
    }

    /// Asks the server to end.
    pub(super) fn terminate(&self) {
        self.server.signal(Signal::SIGTERM);
    }

    pub(super) async fn cancel(&mut self, id: u64) {
        let params = json!({"requestId": id});
        let method = "notifications/cancelled";
        self.say(json!({"jsonrpc": "2.0", "method": method, "params": params}))
            .await;
    }
}
