//! The stdio transport: framing, order, cancellation, and the end of the process.

mod server;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::harness::{Dialect, binary, response};
pub(crate) use server::StdioServer;

/// A person who starts it so sees what it waits for.
#[tokio::test]
async fn server_on_a_terminal_says_what_it_waits_for() {
    let mut terminal = tokio::process::Command::new("script");
    let command = format!("'{}' --stdio", binary("mcp-conformance").display());
    terminal.args(["-qec", &command, "/dev/null"]);
    let mut peer = StdioServer::spawn(terminal, &[]);
    // Beside it is the log.
    while !peer
        .line()
        .await
        .unwrap()
        .contains("waits for the messages of an MCP client on stdin")
    {}
}

#[tokio::test]
async fn stdout_has_only_messages() {
    let mut peer = StdioServer::start(&["--log", "trace"]);
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
    // Notifications and empty lines get no answer.
    for line in [
        "",
        "  ",
        "\r",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    ] {
        peer.send(line).await;
    }
    peer.close().await;
}

#[tokio::test]
async fn server_exits_at_the_end_of_input() {
    StdioServer::start(&[]).close().await;

    let mut peer = StdioServer::start(&[]);
    peer.start_slow(1).await;
    drop(peer.stdin.take());
    assert_eq!(peer.exit_code().await, Some(0));
}

#[tokio::test]
async fn server_exits_on_a_signal() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut peer = StdioServer::start(&[]);
        peer.ask_plain(1, "ping", "").await;
        peer.signal(signal);
        assert_eq!(peer.exit_code().await, Some(0), "{signal}");

        let mut peer = StdioServer::start(&[]);
        peer.start_slow(1).await;
        peer.signal(signal);
        assert_eq!(peer.exit_code().await, Some(0), "{signal}, busy");
    }
}

#[tokio::test]
async fn server_exits_when_stdout_is_closed() {
    let mut peer = StdioServer::start(&[]);
    peer.ask_plain(1, "ping", "").await;
    drop(peer.stdout.take());
    peer.request(2, "ping", "").await;
    assert_eq!(peer.exit_code().await, Some(0));
}

#[tokio::test]
async fn requests_before_the_end_of_input_are_answered() {
    // As many as a pipe holds the answers of: a server does not wait long for a client that has closed it.
    const COUNT: usize = 300;
    let mut peer = StdioServer::start(&[]);
    for id in 1..COUNT {
        let members = format!(r#""name":"echo","arguments":{{"value":{id}}}"#);
        peer.request(id, "tools/call", &members).await;
    }
    let slow = r#""name":"slow","arguments":{"step":50,"steps":1}"#;
    peer.request(COUNT, "tools/call", slow).await;
    drop(peer.stdin.take());
    let mut answered = 0;
    while peer.line().await.is_some() {
        answered += 1;
    }
    assert_eq!(answered, COUNT);
    assert_eq!(peer.exit_code().await, Some(0));
}

#[tokio::test]
async fn line_over_the_limit_affects_no_other_line() {
    const MAX_LINE_BYTES: usize = 1000;
    let mut peer = StdioServer::start(&["--body-limit", "1000"]);
    let padded = |size: usize| {
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"ping","x":""}"#;
        line.replace("\"\"", &format!("\"{}\"", "x".repeat(size - line.len())))
    };
    assert_eq!(padded(MAX_LINE_BYTES).len(), MAX_LINE_BYTES);
    peer.send(padded(MAX_LINE_BYTES)).await;
    assert_eq!(peer.message().await["result"], json!({}));
    for excess in [1, MAX_LINE_BYTES, 999 * MAX_LINE_BYTES] {
        peer.send(padded(MAX_LINE_BYTES + excess)).await;
        let answer = peer.message().await;
        assert_eq!(answer["error"]["data"]["kind"], "too_large", "{answer}");
        assert_eq!(answer["error"]["data"]["limit"], MAX_LINE_BYTES);
        assert_eq!(answer["id"], Value::Null);
        let answer = peer.ask_plain(2, "ping", "").await;
        assert_eq!(answer["id"], 2);
    }
    // The last line, without a line break.
    let rest = padded(MAX_LINE_BYTES * 3);
    let mut stdin = peer.stdin.take().unwrap();
    stdin.write_all(rest.as_bytes()).await.unwrap();
    drop(stdin);
    assert_eq!(peer.message().await["error"]["data"]["kind"], "too_large");
    assert_eq!(peer.line().await, None);
}

#[tokio::test]
async fn eras_interleave() {
    let mut peer = StdioServer::start(&[]);
    let is_modern = |answer: &Value| answer["result"].get("resultType").is_some();
    let has_output_schema = |answer: &Value| {
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().any(|tool| tool.get("outputSchema").is_some())
    };

    let answer = peer.ask(Dialect::Modern, "1", "server/discover", "").await;
    assert!(is_modern(&answer), "{answer}");
    let versions = &answer["result"]["supportedVersions"];
    assert_eq!(versions[0], "2026-07-28", "{answer}");
    // A client that does not know the era may omit `_meta`; it needs an answer, too.
    let answer = StdioServer::start(&[])
        .ask_plain(0, "server/discover", "")
        .await;
    assert!(answer["result"].is_object() || answer["error"]["code"].is_number());
    let answer = peer.ask_plain(2, "tools/list", "").await;
    let is_new = is_modern(&answer) || has_output_schema(&answer);
    assert!(!is_new, "{answer}");
    let answer = peer.ask_plain(3, "mcp.listTools", "").await;
    assert!(answer["result"].is_array(), "{answer}");

    let version = r#""protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}"#;
    let answer = peer.ask_plain(4, "initialize", version).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    let answer = peer.ask_plain(5, "tools/list", "").await;
    assert!(!is_modern(&answer), "{answer}");
    assert!(has_output_schema(&answer), "{answer}");

    let answer = peer.ask(Dialect::Modern, "6", "tools/list", "").await;
    assert!(is_modern(&answer), "{answer}");
    let answer = peer.ask(Dialect::Modern, "7", "ping", "").await;
    assert_eq!(answer["error"]["code"], -32601);
    let answer = peer.ask_plain(8, "ping", "").await;
    assert_eq!(answer["result"], json!({}));
    // There are no batches from 2025-06-18 on.
    peer.send(r#"[{"jsonrpc":"2.0","id":9,"method":"ping"}]"#)
        .await;
    assert_eq!(peer.message().await["error"]["code"], -32600);
}

/// Calls that wait for answers of the client do not keep these from being read.
#[tokio::test]
async fn answers_are_read_whatever_is_in_flight() {
    const MAX_IN_FLIGHT: usize = 512;
    let mut peer = StdioServer::start(&[]);
    let capable = r#""protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}"#;
    peer.ask_plain(1000, "initialize", capable).await;
    let asking = r#""name":"test_elicitation","arguments":{"message":"Who?"}"#;
    let mut questions = Vec::new();
    for id in 0..MAX_IN_FLIGHT {
        peer.request(id, "tools/call", asking).await;
        questions.push(peer.message().await["id"].clone());
    }
    let refused = peer.ask_plain(1001, "tools/call", asking).await;
    assert_eq!(refused["id"], 1001);
    assert_eq!(refused["error"]["data"]["kind"], "too_many_in_flight");
    for question in &questions {
        let declined = response(question, "result", json!({"action": "decline"}));
        peer.send(declined.to_string()).await;
        let answer = peer.message().await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    let answer = peer.ask_plain(1002, "ping", "").await;
    assert_eq!(answer["result"], json!({}));
}

#[tokio::test]
async fn cancelled_call_gets_no_answer() {
    let cancelled = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"enough"}}}}"#
        )
    };
    let mut peer = StdioServer::start(&[]);
    peer.start_slow(1).await;
    // Ids of another type, unknown ids, invalid ids.
    for other in ["\"1\"", "2", "null", "{}"] {
        peer.send(cancelled(other)).await;
    }
    peer.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#)
        .await;
    // The call still runs and reports progress.
    peer.request(3, "ping", "").await;
    assert_eq!(peer.answer().await["id"], 3);
    assert_eq!(peer.message().await["method"], "notifications/progress");

    peer.send(cancelled("1")).await;
    peer.request(4, "ping", "").await;
    assert_eq!(peer.answer().await["id"], 4);
    drop(peer.stdin.take());
    while let Some(line) = peer.line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message.get("id"), None, "{line}");
    }
    assert_eq!(peer.exit_code().await, Some(0));
}

#[tokio::test]
async fn carriage_returns_are_removed_from_results() {
    let mut peer = StdioServer::start(&[]);
    let value = "[1,\r2,\r\r{\"a\":\"\\r\\n\"}]";
    let members = format!(r#""name":"echo","arguments":{{"value":{value}}}"#);
    peer.request(1, "mcp.callTool", &members).await;
    let line = peer.line().await.unwrap();
    assert!(!line.contains('\r'), "{line:?}");
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answer["result"]["value"], json!([1, 2, {"a": "\r\n"}]));
}

#[tokio::test]
async fn each_of_20_000_requests_gets_one_answer() {
    const COUNT: usize = 20_000;
    let mut peer = StdioServer::start(&[]);
    let mut stdin = peer.stdin.take().unwrap();
    let sending = tokio::spawn(async move {
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
    drop(sending.await.unwrap());
    assert_eq!(peer.line().await, None);
}
