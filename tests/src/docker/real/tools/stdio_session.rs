//! A conversation over stdio, message by message: questions, progress, tasks, cancellation.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::super::super::SERVER;
use crate::harness::{CALL_TIMEOUT, binary};

pub(super) struct StdioSession {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
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
    pub(super) async fn with(mut command: Command, host: &str, env: &[(&str, &str)]) -> Self {
        let mut child = command
            .env("DOCKER_HOST", host)
            .env("MCP_TOOLSETS", "all")
            .env("DOCKER_CLIENT_TIMEOUT", "60")
            .env("MCP_CALL_TIMEOUT", "120")
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut session = Self {
            child,
            stdin,
            stdout,
            last: 0,
        };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "tests", "version": "1"},
        });
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
        created["result"]["task"]["taskId"]
            .as_str()
            .unwrap_or_else(|| panic!("{created}"))
            .to_owned()
    }

    /// A request; its id.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    pub(super) async fn say(&mut self, message: Value) {
        self.stdin
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
        self.stdin.flush().await.unwrap();
    }

    /// The next message.
    pub(super) async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(CALL_TIMEOUT, self.stdout.next_line());
        let line = line.await.expect("the server says nothing").unwrap();
        serde_json::from_str(&line.expect("the server has ended")).unwrap()
    }

    /// The next message with this method.
    pub(super) async fn until(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await;
            if message["method"] == method {
                return message;
            }
            assert!(message["method"].is_string(), "{message}");
        }
    }

    /// The answer to a request; skips other messages.
    pub(super) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next().await;
            if message["id"] == id && message["method"].is_null() {
                return message;
            }
        }
    }

    /// The answer to a request, and the progress before it.
    pub(super) async fn answer_with_progress(&mut self, id: u64) -> (Value, Vec<Value>) {
        let mut progress = Vec::new();
        loop {
            let message = self.next().await;
            if message["id"] == id && message["method"].is_null() {
                return (message, progress);
            }
            if message["method"] == "notifications/progress" {
                progress.push(message["params"].clone());
            }
        }
    }

    /// Answers the server's next question.
    pub(super) async fn reply(&mut self, result: Value) -> String {
        let question = self.until("elicitation/create").await;
        self.say(json!({"jsonrpc": "2.0", "id": question["id"], "result": result}))
            .await;
        question["params"]["message"].as_str().unwrap().to_owned()
    }

    /// Asks the server to end.
    pub(super) fn terminate(&self) {
        let id = self.child.id().unwrap().cast_signed();
        kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
    }

    pub(super) async fn cancel(&mut self, id: u64) {
        let params = json!({"requestId": id});
        let method = "notifications/cancelled";
        self.say(json!({"jsonrpc": "2.0", "method": method, "params": params}))
            .await;
    }
}
