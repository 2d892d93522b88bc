//! `mcp-gateway bridge`: what a host gets through it is what the server sends.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::watch;

use crate::harness::{Dialect, Server, assert_contains, binary, eventually};
use crate::stdio::StdioServer;

/// Timeout of each wait.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

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

    /// Makes the handshake of a legacy client.
    async fn shake_hands(&mut self) {
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
                r#""name":"echo","arguments":{"value":1e400,"x":"\u00e4\nb"}"#,
            ),
            ("tools/call", r#""name":"no_such","arguments":{}"#),
            ("resources/list", ""),
            ("prompts/list", ""),
            ("no/such", ""),
        ] {
            for id in ["7", "\"a\\u0062\""] {
                let request = dialect.request(id, method, members);
                let line = bridge_line(&mut bridge, &request).await;
                let expected = direct.ask_line(&request).await;
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
async fn legacy_clients_get_questions_and_changes() {
    let server = Server::start("mcp-conformance", &[]).await;
    let mut bridge = Bridge::start(&server.url, &[], &[]);
    bridge.shake_hands().await;
    let call = |id: u64, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    bridge
        .send(&call(1, "test_elicitation", json!({"message": "who?"})))
        .await;
    let question = bridge.message().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let content = json!({"username": "ada", "email": "a@b.c"});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": content}});
    let result = bridge.ask(&answer.to_string()).await;
    assert_eq!(result["id"], 1, "{result}");
    assert_contains(&result.to_string(), "ada");
    // The notification comes on the server's own stream, which is opened beside the calls.
    for id in 2.. {
        assert!(id < 100, "no notification");
        bridge
            .send(&call(id, "test_trigger_tool_change", json!({})))
            .await;
        let first = bridge.message().await;
        if first["method"] == "notifications/tools/list_changed" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn server_that_restarts_is_waited_for_and_gets_a_new_session() {
    let first = Server::start("mcp-conformance", &[]).await;
    let port = first.url.split([':', '/']).nth(4).unwrap().to_owned();
    let mut bridge = Bridge::start(&first.url, &[], &[]);
    bridge.shake_hands().await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let before = bridge.ask(list).await;
    first.kill().await;
    bridge.send(list).await;
    let mut second = tokio::process::Command::new(binary("mcp-conformance"))
        .env_clear()
        .env("MCP_PORT", port)
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    assert_eq!(bridge.message().await, before);
    bridge.close().await;
    second.kill().await.unwrap();
}

#[tokio::test]
async fn tokens_come_from_a_variable_or_a_file() {
    let server = Server::start("mcp-conformance", &[("MCP_TOKEN", "right-of-16-chars")]).await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for (token, works) in [("right-of-16-chars", true), ("wrong", false)] {
        let mut bridge = Bridge::start(&server.url, &[], &[("MCP_TOKEN", token)]);
        let answer = bridge.ask(list).await;
        assert_eq!(answer["result"].is_object(), works, "{answer}");
        assert_eq!(answer["id"], 1);
        bridge.close().await;
    }
    let file = std::env::temp_dir().join(format!("token-{}", uuid::Uuid::new_v4().simple()));
    std::fs::write(&file, "wrong").unwrap();
    let mut bridge = Bridge::start(&server.url, &["--token-file", file.to_str().unwrap()], &[]);
    let refused = bridge.ask(list).await;
    assert_contains(&refused["error"]["message"].to_string(), "--token-file");
    // A new token counts at once.
    std::fs::write(&file, "right-of-16-chars\n").unwrap();
    assert!(bridge.ask(list).await["result"].is_object());
    std::fs::remove_file(&file).unwrap();
    bridge.close().await;
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

/// A network between the bridge and a server, whose connections can be broken.
struct Network {
    url: String,
    breaks: watch::Sender<()>,
    /// The bytes that clients have sent.
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Network {
    async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let address = server.url.trim_start_matches("http://");
        let address = address.trim_end_matches("/mcp").to_owned();
        let (breaks, broken) = watch::channel(());
        let sent = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&sent);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&address).await.unwrap();
                let (mut broken, recorded) = (broken.clone(), Arc::clone(&recorded));
                broken.mark_unchanged();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = broken.changed() => {}
                        () = forward(client, server, &recorded) => {}
                    }
                });
            }
        });
        Self { url, breaks, sent }
    }

    fn sent(&self) -> String {
        String::from_utf8_lossy(&self.sent.lock().unwrap()).to_ascii_lowercase()
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, sent: &Mutex<Vec<u8>>) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let up = async {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
            sent.lock().unwrap().extend_from_slice(&buffer[..length]);
            to_server.write_all(&buffer[..length]).await.unwrap();
        }
    };
    tokio::select! {
        () = up => {}
        _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
    }
}

#[tokio::test]
async fn call_whose_stream_breaks_is_resumed_after_its_last_event() {
    let server = Server::start("mcp-conformance", &[]).await;
    let network = Network::to(&server).await;
    let mut bridge = Bridge::start(&network.url, &[], &[]);
    bridge.shake_hands().await;
    let params = json!({"name": "test_elicitation", "arguments": {"message": "Who?"}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let question = bridge.ask(&call.to_string()).await;
    assert_eq!(question["method"], "elicitation/create");
    assert!(!network.sent().contains("last-event-id"));

    network.breaks.send(()).unwrap();
    eventually("a resumed stream", async || {
        network.sent().contains("last-event-id: ").then_some(())
    })
    .await;
    let result = json!({"action": "accept", "content": {"username": "ann", "email": "a@b"}});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    // Neither the question again nor an error: the result of the one call.
    let result = bridge.ask(&answer.to_string()).await;
    assert_eq!(result["id"], 1);
    assert!(result["result"].to_string().contains("ann"), "{result}");
    assert_eq!(network.sent().matches("tools/call").count(), 1);
    bridge.close().await;
}
