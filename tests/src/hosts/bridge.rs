//! `mcp-gateway bridge`: through it a host sees the server alone, as it is.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::harness::{Dialect, Server, assert_contains, assert_lacks, binary};
use crate::stdio::StdioServer;

/// The texts by which the bridge and the server behind it name themselves.
const NAMES: [[&str; 2]; 2] = [
    ["mcp-gateway", "mcp-conformance"],
    [
        "A running server for hosts that start programs",
        "A server with fixed contents for tests",
    ],
];

/// Timeout of each wait.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// Calls a tool that returns its arguments.
fn echo(id: u64) -> String {
    call(id, "echo", json!({"value": id}))
}

fn call(id: u64, name: &str, arguments: Value) -> String {
    let params = json!({"name": name, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

/// Starts a server at a port that was free.
fn serve(port: &str) -> Child {
    tokio::process::Command::new(binary("mcp-conformance"))
        .env_clear()
        .env("MCP_PORT", port)
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

struct Bridge {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Bridge {
    fn start(url: &str, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut child = tokio::process::Command::new(binary("mcp-gateway"))
            .args(["bridge", url])
            .args(args)
            .env_clear()
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    async fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn line(&mut self) -> Option<String> {
        let line = tokio::time::timeout(REPLY_TIMEOUT, self.stdout.next_line()).await;
        line.expect("no line in time").unwrap()
    }

    async fn message(&mut self) -> Value {
        serde_json::from_str(&self.line().await.expect("it has ended")).unwrap()
    }

    async fn ask(&mut self, line: &str) -> Value {
        self.send(line).await;
        self.message().await
    }

    /// Makes the handshake of a legacy client. Returns the instructions.
    async fn shake_hands(&mut self) -> String {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "tests", "version": "1"},
        });
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = self.ask(&hello.to_string()).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await;
        let instructions = answer["result"]["instructions"].as_str();
        instructions.unwrap_or_default().to_owned()
    }

    /// The names of the tools.
    async fn tools(&mut self) -> Vec<String> {
        let list = self.ask(LIST).await;
        let tools = list["result"]["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Closes stdin and waits for the exit.
    async fn close(mut self) {
        drop(self.stdin.take());
        assert_eq!(self.line().await, None);
        let ended = tokio::time::timeout(REPLY_TIMEOUT, self.child.wait()).await;
        assert_eq!(ended.unwrap().unwrap().code(), Some(0));
    }
}

#[tokio::test]
async fn answers_are_those_of_the_server_byte_for_byte() {
    let server = Server::start("mcp-conformance", &[]).await;
    let mut direct = StdioServer::start(&[]);
    let mut bridge = Bridge::start(&server.url, &[], &[]);
    for dialect in [Dialect::Unversioned, Dialect::Modern] {
        for (method, members) in [
            ("tools/list", ""),
            (
                "tools/call",
                r#""name":"echo","arguments":{"value":[1e400,"\u00e4\nb"]}"#,
            ),
            ("resources/list", ""),
            ("prompts/list", ""),
            ("no/such", ""),
        ] {
            for id in ["7", "\"a\\u0062\""] {
                let request = dialect.request(id, method, members);
                let line = bridge_line(&mut bridge, &request).await;
                let expected = direct.ask_line(&request).await;
                // The server that a modern answer names is the bridge.
                let own = |line: String, [bridge, server]: [&str; 2]| line.replace(bridge, server);
                let line = NAMES.into_iter().fold(line, own);
                assert_eq!(line, expected, "{dialect:?} {request}");
            }
        }
    }
    for broken in ["{", "[]", r#"{"jsonrpc":"2.0","id":1}"#] {
        let answer = bridge.ask(broken).await;
        assert!(answer["error"]["code"].is_number(), "{answer}");
    }
    bridge.close().await;
}

async fn bridge_line(bridge: &mut Bridge, request: &str) -> String {
    bridge.send(request).await;
    bridge.line().await.unwrap()
}

#[tokio::test]
async fn legacy_clients_get_questions_and_messages() {
    let server = Server::start("mcp-conformance", &[]).await;
    let mut bridge = Bridge::start(&server.url, &[], &[]);
    bridge.shake_hands().await;
    let asking = call(1, "test_elicitation", json!({"message": "who?"}));
    let question = bridge.ask(&asking).await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let content = json!({"username": "ada", "email": "a@b.c"});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": content}});
    let result = bridge.ask(&answer.to_string()).await;
    assert_eq!(result["id"], 1, "{result}");
    assert_contains(&result.to_string(), "ada");
    bridge
        .send(&call(2, "test_tool_with_logging", json!({})))
        .await;
    let message = bridge.message().await;
    assert_eq!(message["method"], "notifications/message", "{message}");
}

#[tokio::test]
async fn server_that_restarts_is_waited_for() {
    let first = Server::start("mcp-conformance", &[]).await;
    let port = first.url.split([':', '/']).nth(4).unwrap().to_owned();
    let mut bridge = Bridge::start(&first.url, &[], &[]);
    bridge.shake_hands().await;
    let before = bridge.ask(&echo(1)).await;
    assert!(before["result"].is_object(), "{before}");
    first.kill().await;
    bridge.send(&echo(1)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut second = serve(&port);
    assert_eq!(bridge.message().await, before);
    bridge.close().await;
    second.kill().await.unwrap();
}

#[tokio::test]
async fn tools_of_a_server_that_starts_later_appear() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let mut bridge = Bridge::start(&format!("http://127.0.0.1:{port}/mcp"), &[], &[]);
    bridge.shake_hands().await;
    assert_eq!(bridge.tools().await, [""; 0]);
    let mut server = serve(&port);
    for list in ["tools", "resources", "prompts"] {
        let changed = bridge.message().await;
        let method = format!("notifications/{list}/list_changed");
        assert_eq!(changed["method"], method, "{changed}");
    }
    let tools = bridge.tools().await;
    assert!(tools.iter().any(|tool| tool == "echo"), "{tools:?}");
    server.kill().await.unwrap();
}

#[tokio::test]
async fn gateway_behind_it_keeps_its_tools_and_instructions() {
    let backend = Server::start("mcp-conformance", &[]).await;
    let args = [
        "--backend",
        &format!("one={}", backend.url),
        "--events",
        "memory",
    ];
    let gateway = Server::with_args("mcp-gateway", &args, &[]).await;
    let mut bridge = Bridge::start(&gateway.url, &[], &[]);
    let instructions = bridge.shake_hands().await;
    assert!(
        instructions.starts_with("Tools of several servers"),
        "{instructions}"
    );
    let tools = bridge.tools().await;
    for name in ["gateway_status", "one__echo"] {
        assert!(tools.iter().any(|tool| tool == name), "{tools:?}");
    }
    let status = bridge.ask(&call(2, "gateway_status", json!({}))).await;
    assert_contains(&status.to_string(), "running");
    bridge.close().await;
}

#[tokio::test]
async fn tokens_come_from_a_variable_or_a_file() {
    let server = Server::start("mcp-conformance", &[("MCP_TOKEN", "right-of-16-chars")]).await;
    let (right, wrong) = ("right-of-16-chars", "wrong-of-16-chars");
    for (token, works) in [(right, true), (wrong, false)] {
        let mut bridge = Bridge::start(&server.url, &[], &[("MCP_TOKEN", token)]);
        let answer = bridge.ask(&echo(1)).await;
        let is_error = answer["result"]["isError"] == true || answer["error"].is_object();
        assert_eq!(is_error, !works, "{answer}");
        assert_eq!(answer["id"], 1);
        assert_lacks(&answer.to_string(), token);
        bridge.close().await;
    }
    let file = std::env::temp_dir().join(format!("token-{}", uuid::Uuid::new_v4().simple()));
    std::fs::write(&file, right).unwrap();
    let mut bridge = Bridge::start(&server.url, &["--token-file", file.to_str().unwrap()], &[]);
    bridge.ask(&echo(1)).await;
    // Each change of it counts at once.
    std::fs::write(&file, wrong).unwrap();
    let refused = bridge.ask(&echo(2)).await;
    assert_contains(&refused.to_string(), "it refuses the token of its file");
    std::fs::write(&file, "right-of-16-chars\n").unwrap();
    let answer = bridge.ask(&echo(3)).await;
    assert!(answer["result"]["isError"] != true, "{answer}");
    std::fs::remove_file(&file).unwrap();
    bridge.close().await;
    // A file that is not there yet, and a variable that must be set.
    let mut bridge = Bridge::start(&server.url, &["--token-file", "/nowhere"], &[]);
    let refused = bridge.ask(&echo(1)).await;
    assert_contains(&refused.to_string(), "the file of its token cannot be read");
    let mut bridge = Bridge::start(&server.url, &["--token-env", "UNSET"], &[]);
    assert_eq!(bridge.line().await, None);
    assert_eq!(bridge.child.wait().await.unwrap().code(), Some(1));
}

#[tokio::test]
async fn requests_before_the_end_of_input_are_answered() {
    let server = Server::start("mcp-conformance", &[]).await;
    let mut bridge = Bridge::start(&server.url, &[], &[]);
    for id in 0..50 {
        let members = format!(r#""name":"echo","arguments":{{"value":{id}}}"#);
        let request = Dialect::Unversioned.request(&id.to_string(), "tools/call", &members);
        bridge.send(&request).await;
    }
    drop(bridge.stdin.take());
    let mut answered = 0;
    while bridge.line().await.is_some() {
        answered += 1;
    }
    assert_eq!(answered, 50);
    assert_eq!(bridge.child.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn modern_calls_are_cancelled() {
    let server = Server::start("mcp-conformance", &[]).await;
    let mut bridge = Bridge::start(&server.url, &[], &[]);
    let slow = r#""name":"slow","arguments":{"step":60,"steps":1000}"#;
    bridge
        .send(&Dialect::Modern.request("1", "tools/call", slow))
        .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    bridge
        .send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .await;
    let answer = bridge
        .ask(&Dialect::Modern.request("2", "tools/list", ""))
        .await;
    assert_eq!(answer["id"], 2);
    // The cancelled call keeps nothing waiting.
    let closed = std::time::Instant::now();
    bridge.close().await;
    assert!(closed.elapsed() < Duration::from_secs(20));
}
