//! A server as a child process over stdio, the fixture above all.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

use crate::harness::{CALL_TIMEOUT, Dialect, binary};

/// A server over stdio.
pub(crate) struct StdioServer {
    child: tokio::process::Child,
    /// `None` once it is closed.
    pub(crate) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<Lines<BufReader<ChildStdout>>>,
}

impl StdioServer {
    /// Starts the fixture with these arguments. Its calls may take ten minutes, so that no test waits for their end.
    pub(crate) fn start(args: &[&str]) -> Self {
        let own = ["--stdio", "--call-timeout", "600"];
        Self::of("mcp-conformance", &[&own, args].concat(), &[])
    }

    /// Starts a program with these arguments and variables.
    pub(crate) fn of(program: &str, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(binary(program));
        command.args(args).env_clear();
        Self::spawn(command, env)
    }

    /// Starts a command with these further variables.
    pub(crate) fn spawn(mut command: Command, env: &[(&str, &str)]) -> Self {
        let mut child = command
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take().map(|out| BufReader::new(out).lines()),
            child,
        }
    }

    pub(crate) async fn send(&mut self, line: impl AsRef<[u8]>) {
        let line = [line.as_ref(), b"\n"].concat();
        self.stdin.as_mut().unwrap().write_all(&line).await.unwrap();
    }

    /// The next line; `None` at the end.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let lines = self.stdout.as_mut().unwrap();
        let line = tokio::time::timeout(CALL_TIMEOUT, lines.next_line()).await;
        line.expect("no line in time").unwrap()
    }

    /// The next line, which must be a message.
    pub(crate) async fn message(&mut self) -> Value {
        let line = self.line().await.expect("the server has ended");
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// Sends a line and returns the next one.
    pub(crate) async fn ask_line(&mut self, line: &str) -> String {
        self.send(line).await;
        self.line().await.expect("the server has ended")
    }

    pub(crate) async fn ask(
        &mut self,
        dialect: Dialect,
        id: &str,
        method: &str,
        members: &str,
    ) -> Value {
        self.send(dialect.request(id, method, members)).await;
        self.message().await
    }

    /// Starts a call that takes some minutes and waits until it runs.
    pub(super) async fn start_slow(&mut self, id: usize) {
        let members =
            r#""name":"slow","arguments":{"step":300,"steps":1000},"_meta":{"progressToken":1}"#;
        self.request(id, "tools/call", members).await;
        assert_eq!(self.message().await["method"], "notifications/progress");
    }

    /// Sends a request without a version.
    pub(super) async fn request(&mut self, id: usize, method: &str, members: &str) {
        self.send(Dialect::Unversioned.request(&id.to_string(), method, members))
            .await;
    }

    /// Sends a request without a version and returns its answer.
    pub(crate) async fn ask_plain(&mut self, id: usize, method: &str, members: &str) -> Value {
        self.request(id, method, members).await;
        self.answer().await
    }

    /// Closes stdin and waits for the exit, after the last line.
    pub(crate) async fn close(&mut self) {
        drop(self.stdin.take());
        assert_eq!(self.line().await, None);
        assert_eq!(self.exit_code().await, Some(0));
    }

    /// Returns the next answer; skips notifications.
    pub(crate) async fn answer(&mut self) -> Value {
        loop {
            let message = self.message().await;
            if message.get("id").is_some() {
                return message;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.id().unwrap().try_into().unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Waits for the exit and returns the exit code.
    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        let exited = tokio::time::timeout(CALL_TIMEOUT, self.child.wait()).await;
        exited.expect("the server does not exit").unwrap().code()
    }
}
