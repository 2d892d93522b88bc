//! One client over stdin and stdout.

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};

use crate::harness::{Dialect, binary};

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// An end that the specification wants within a second; the machine may be busy.
const SOON: Duration = Duration::from_secs(4);

pub(crate) struct Peer {
    child: tokio::process::Child,
    /// `None` once it was closed.
    stdin: Option<ChildStdin>,
    stdout: Option<Lines<BufReader<ChildStdout>>>,
}

impl Peer {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut child = tokio::process::Command::new(binary("mcp-conformance"))
            .arg("--stdio")
            .args(args)
            .env_clear()
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

    async fn send(&mut self, line: impl AsRef<[u8]>) {
        let line = [line.as_ref(), b"\n"].concat();
        self.stdin.as_mut().unwrap().write_all(&line).await.unwrap();
    }

    /// The next line; `None` at the end.
    async fn line(&mut self) -> Option<String> {
        let lines = self.stdout.as_mut().unwrap();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        line.expect("it says nothing").unwrap()
    }

    /// The next line, which must be a message.
    async fn message(&mut self) -> Value {
        let line = self.line().await.expect("it ended");
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
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

    /// Starts a call that takes a minute and waits until it runs.
    async fn start_slow(&mut self, id: &str) {
        let members =
            r#""name":"slow","arguments":{"step":1,"steps":1},"_meta":{"progressToken":1}"#;
        let members = members.replace(r#""step":1,"steps":1"#, r#""step":60,"steps":1000"#);
        self.send(Dialect::Unversioned.request(id, "tools/call", &members))
            .await;
        assert_eq!(self.message().await["method"], "notifications/progress");
    }

    /// The next answer, past notifications.
    async fn answer(&mut self) -> Value {
        loop {
            let message = self.message().await;
            if message.get("id").is_some() {
                return message;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().unwrap().try_into().unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Waits for the end; the exit code.
    async fn ended(&mut self) -> Option<i32> {
        let started = Instant::now();
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let code = ended.expect("it stays").unwrap().code();
        assert!(started.elapsed() < SOON, "took {:?}", started.elapsed());
        code
    }
}

#[tokio::test]
async fn nothing_but_messages_is_on_stdout() {
    let mut peer = Peer::start(&["--log", "trace"]);
    let lines: [&[u8]; 12] = [
        b"{",
        b"\xef\xbb\xbf{}",
        b"\xff\xfe",
        b"7",
        b"[]",
        b"{}",
        br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fail","arguments":{}}}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":[]}}"#,
        br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
    ];
    for line in lines {
        peer.send(line).await;
        let answer = peer.line().await.unwrap();
        let value: Value = serde_json::from_str(&answer).unwrap();
        assert!(value.is_object() || value.is_array(), "{answer}");
    }
    // What wants no answer gets none, an empty line included.
    for line in [
        "",
        "  ",
        "\r",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    ] {
        peer.send(line).await;
    }
    drop(peer.stdin.take());
    assert_eq!(peer.line().await, None);
    assert_eq!(peer.ended().await, Some(0));
}

#[tokio::test]
async fn it_ends_with_its_input() {
    let mut peer = Peer::start(&[]);
    drop(peer.stdin.take());
    assert_eq!(peer.ended().await, Some(0));

    let mut peer = Peer::start(&[]);
    peer.start_slow("1").await;
    drop(peer.stdin.take());
    assert_eq!(peer.ended().await, Some(0));
}

#[tokio::test]
async fn it_ends_when_it_is_told_to() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut peer = Peer::start(&[]);
        peer.ask(Dialect::Unversioned, "1", "ping", "").await;
        peer.signal(signal);
        assert_eq!(peer.ended().await, Some(0), "{signal}");

        let mut peer = Peer::start(&[]);
        peer.start_slow("1").await;
        peer.signal(signal);
        assert_eq!(peer.ended().await, Some(0), "{signal}, busy");
    }
}

#[tokio::test]
async fn it_ends_when_nobody_reads() {
    let mut peer = Peer::start(&[]);
    peer.ask(Dialect::Unversioned, "1", "ping", "").await;
    drop(peer.stdout.take());
    peer.send(Dialect::Unversioned.request("2", "ping", ""))
        .await;
    assert_eq!(peer.ended().await, Some(0));
}

#[tokio::test]
async fn what_was_asked_before_the_end_of_the_input_is_answered() {
    let mut peer = Peer::start(&[]);
    for id in 0..500 {
        let members = format!(r#""name":"echo","arguments":{{"value":{id}}}"#);
        let line = Dialect::Unversioned.request(&id.to_string(), "tools/call", &members);
        peer.send(line).await;
    }
    let slow = r#""name":"slow","arguments":{"step":50,"steps":1}"#;
    peer.send(Dialect::Unversioned.request("500", "tools/call", slow))
        .await;
    drop(peer.stdin.take());
    let mut answered = 0;
    while peer.line().await.is_some() {
        answered += 1;
    }
    assert_eq!(answered, 501);
    assert_eq!(peer.ended().await, Some(0));
}

#[tokio::test]
async fn it_tells_what_it_speaks_before_any_handshake() {
    let mut peer = Peer::start(&[]);
    let answer = peer.ask(Dialect::Modern, "0", "server/discover", "").await;
    let versions = &answer["result"]["supportedVersions"];
    assert_eq!(versions[0], "2026-07-28", "{answer}");
    // A client that is not sure asks without `_meta` and must not wait for ever.
    let mut peer = Peer::start(&[]);
    let answer = peer
        .ask(Dialect::Unversioned, "0", "server/discover", "")
        .await;
    assert!(answer["result"].is_object() || answer["error"]["code"].is_number());
}

#[tokio::test]
async fn a_line_that_is_too_long_costs_only_itself() {
    const LIMIT: usize = 1000;
    let mut peer = Peer::start(&["--body-limit", "1000"]);
    let padded = |size: usize| {
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"ping","x":""}"#;
        line.replace("\"\"", &format!("\"{}\"", "x".repeat(size - line.len())))
    };
    assert_eq!(padded(LIMIT).len(), LIMIT);
    peer.send(padded(LIMIT)).await;
    assert_eq!(peer.message().await["result"], json!({}));
    for size in [LIMIT + 1, LIMIT * 2, LIMIT * 1000] {
        peer.send(padded(size)).await;
        let answer = peer.message().await;
        assert_eq!(answer["error"]["data"]["kind"], "too_large", "{answer}");
        assert_eq!(answer["error"]["data"]["limit"], LIMIT);
        assert_eq!(answer["id"], Value::Null);
        let answer = peer.ask(Dialect::Unversioned, "2", "ping", "").await;
        assert_eq!(answer["id"], 2);
    }
    // The last line, without its end.
    let rest = padded(LIMIT * 3);
    peer.stdin
        .as_mut()
        .unwrap()
        .write_all(rest.as_bytes())
        .await
        .unwrap();
    drop(peer.stdin.take());
    assert_eq!(peer.message().await["error"]["data"]["kind"], "too_large");
    assert_eq!(peer.line().await, None);
}

#[tokio::test]
async fn eras_interleave() {
    let mut peer = Peer::start(&[]);
    let is_modern = |answer: &Value| answer["result"].get("resultType").is_some();
    let has_output_schema = |answer: &Value| {
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().any(|tool| tool.get("outputSchema").is_some())
    };

    let answer = peer.ask(Dialect::Modern, "1", "server/discover", "").await;
    assert!(is_modern(&answer), "{answer}");
    let answer = peer.ask(Dialect::Unversioned, "2", "tools/list", "").await;
    assert!(
        !is_modern(&answer) && !has_output_schema(&answer),
        "{answer}"
    );
    let answer = peer
        .ask(Dialect::Unversioned, "3", "mcp.listTools", "")
        .await;
    assert!(answer["result"].is_array(), "{answer}");

    let version = r#""protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}"#;
    let answer = peer
        .ask(Dialect::Unversioned, "4", "initialize", version)
        .await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    let answer = peer.ask(Dialect::Unversioned, "5", "tools/list", "").await;
    assert!(
        !is_modern(&answer) && has_output_schema(&answer),
        "{answer}"
    );

    let answer = peer.ask(Dialect::Modern, "6", "tools/list", "").await;
    assert!(is_modern(&answer), "{answer}");
    let answer = peer.ask(Dialect::Modern, "7", "ping", "").await;
    assert_eq!(answer["error"]["code"], -32601);
    let answer = peer.ask(Dialect::Unversioned, "8", "ping", "").await;
    assert_eq!(answer["result"], json!({}));
    // From 2025-06-18 on there are no batches, here neither.
    peer.send(r#"[{"jsonrpc":"2.0","id":9,"method":"ping"}]"#)
        .await;
    assert_eq!(peer.message().await["error"]["code"], -32600);
}

#[tokio::test]
async fn a_key_may_be_escaped() {
    // Some JSON writers escape every slash.
    let mut peer = Peer::start(&[]);
    let line = Dialect::Modern.request("1", "server/discover", "");
    let escaped = line.replace("io.modelcontextprotocol/", r"io.modelcontextprotocol\/");
    assert_ne!(line, escaped);
    peer.send(escaped).await;
    let answer = peer.message().await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}

#[tokio::test]
async fn a_slow_call_blocks_no_other() {
    let mut peer = Peer::start(&[]);
    for id in 1..=50 {
        let slow = r#""name":"slow","arguments":{"step":60000,"steps":1}"#;
        let line = Dialect::Unversioned.request(&id.to_string(), "tools/call", slow);
        peer.send(line).await;
    }
    for id in 100..110 {
        let echo = r#""name":"echo","arguments":{"value":1}"#;
        let answer = peer
            .ask(Dialect::Unversioned, &id.to_string(), "tools/call", echo)
            .await;
        assert_eq!(answer["id"], id);
    }
}

#[tokio::test]
async fn a_cancelled_call_gets_no_answer() {
    let cancelled = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"enough"}}}}"#
        )
    };
    let mut peer = Peer::start(&[]);
    peer.start_slow("1").await;
    // Other ids, an unknown one, and nonsense.
    for other in ["\"1\"", "2", "null", "{}"] {
        peer.send(cancelled(other)).await;
    }
    peer.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#)
        .await;
    // It still runs: it still reports.
    peer.send(Dialect::Unversioned.request("3", "ping", ""))
        .await;
    assert_eq!(peer.answer().await["id"], 3);
    assert_eq!(peer.message().await["method"], "notifications/progress");

    peer.send(cancelled("1")).await;
    peer.send(Dialect::Unversioned.request("4", "ping", ""))
        .await;
    assert_eq!(peer.answer().await["id"], 4);
    drop(peer.stdin.take());
    while let Some(line) = peer.line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message.get("id"), None, "{line}");
    }
    assert_eq!(peer.ended().await, Some(0));
}

#[tokio::test]
async fn a_result_is_one_line_whatever_is_in_it() {
    let mut peer = Peer::start(&[]);
    let value = "[1,\r2,\r\r{\"a\":\"\\r\\n\"}]";
    let members = format!(r#""name":"echo","arguments":{{"value":{value}}}"#);
    peer.send(Dialect::Unversioned.request("1", "mcp.callTool", &members))
        .await;
    let line = peer.line().await.unwrap();
    assert!(!line.contains('\r'), "{line:?}");
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answer["result"]["value"], json!([1, 2, {"a": "\r\n"}]));
}

#[tokio::test]
async fn results_of_several_lines_are_one_line_too() {
    use mcp_core::server::{Connection, IncomingFrame};
    // A frame of several lines comes in over HTTP, so this one is looked at in memory.
    let server = crate::harness::in_memory(std::iter::once("mcp-conformance"));
    let members = "\"name\":\"echo\",\"arguments\":{\"value\":[1,\n2,\r\n3]}";
    let frame = Dialect::Unversioned.request("1", "mcp.callTool", members);
    let answer = server
        .handle(IncomingFrame {
            frame: frame.as_bytes(),
            hints: mcp_core::era::Hints::default(),
            connection: Some(std::sync::Arc::new(Connection::default())),
            caller: mcp_core::server::Caller::default(),
        })
        .await;
    let line = String::from_utf8(answer.into_line().unwrap()).unwrap();
    let expected = r#"{"jsonrpc":"2.0","id":1,"result":{"value":[1, 2,  3]}}"#;
    assert_eq!(line, expected);
}

#[tokio::test]
async fn twenty_thousand_questions_get_twenty_thousand_answers() {
    const COUNT: usize = 20_000;
    let mut peer = Peer::start(&[]);
    let mut stdin = peer.stdin.take().unwrap();
    let asking = tokio::spawn(async move {
        for id in 0..COUNT {
            let members = format!(r#""name":"echo","arguments":{{"value":{id}}}"#);
            let line = Dialect::Unversioned.request(&id.to_string(), "tools/call", &members) + "\n";
            stdin.write_all(line.as_bytes()).await.unwrap();
        }
        stdin
    });
    let mut answered = vec![false; COUNT];
    for _ in 0..COUNT {
        let answer = peer.message().await;
        let id: usize = answer["id"].as_u64().unwrap().try_into().unwrap();
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(text, format!(r#"{{"value":{id}}}"#));
        assert!(!std::mem::replace(&mut answered[id], true), "{id} twice");
    }
    drop(asking.await.unwrap());
    assert_eq!(peer.line().await, None);
}
