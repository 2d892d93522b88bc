//! `mcp-gateway bridge`: through it a host sees the server alone, as it is.

use serde_json::{Value, json};

use crate::harness::{
    Dialect, Folder, Server, assert_contains, assert_lacks, assert_starts_with, binary, free_port,
    member_texts, response, rpc_call, wait_until,
};
use crate::stdio::StdioServer;

/// The texts by which the bridge and the server behind it name themselves.
const NAMES: [[&str; 2]; 2] = [
    ["mcp-gateway", "mcp-conformance"],
    [
        "A running server for hosts that start programs",
        "A server with fixed contents for tests",
    ],
];

/// Calls a tool that returns its arguments.
fn echo() -> String {
    call("echo", json!({"value": 1}))
}

fn call(name: &str, arguments: Value) -> String {
    rpc_call(name, arguments).to_string()
}

/// Starts a server at this port.
async fn serve(port: u16) -> Server {
    let mut command = tokio::process::Command::new(binary("mcp-conformance"));
    command.env_clear().env("MCP_PORT", port.to_string());
    Server::spawn(command).await
}

fn start(url: &str, args: &[&str], env: &[(&str, &str)]) -> StdioServer {
    StdioServer::of("mcp-gateway", &[&["bridge", url], args].concat(), env)
}

/// Sends a message and returns the next answer or question.
async fn ask(bridge: &mut StdioServer, line: &str) -> Value {
    bridge.send(line).await;
    bridge.answer().await
}

/// Makes the handshake of a legacy client. Returns the instructions.
async fn shake_hands(bridge: &mut StdioServer) -> String {
    let members = r#""protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"tests","version":"1"}"#;
    let answer = bridge.ask_plain(0, "initialize", members).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    bridge.send(initialized).await;
    let instructions = answer["result"]["instructions"].as_str();
    instructions.unwrap_or_default().to_owned()
}

/// The names of the tools.
async fn tools(bridge: &mut StdioServer) -> Vec<String> {
    let list = bridge.ask_plain(1, "tools/list", "").await;
    let names = member_texts(&list["result"]["tools"], "name").into_iter();
    names.map(str::to_owned).collect()
}

#[tokio::test]
async fn answers_are_those_of_the_server_byte_for_byte() {
    let server = Server::start("mcp-conformance", &[]).await;
    let mut direct = StdioServer::start(&[]);
    let mut bridge = start(&server.url, &[], &[]);
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
                let line = bridge.ask_line(&request).await;
                let expected = direct.ask_line(&request).await;
                // The server that a modern answer names is the bridge.
                let own = |line: String, [bridge, server]: [&str; 2]| line.replace(bridge, server);
                let line = NAMES.into_iter().fold(line, own);
                assert_eq!(line, expected, "{dialect:?} {request}");
            }
        }
    }
    for broken in ["{", "[]", r#"{"jsonrpc":"2.0","id":1}"#] {
        let answer = ask(&mut bridge, broken).await;
        assert!(answer["error"]["code"].is_number(), "{answer}");
    }
    bridge.close().await;
}

#[tokio::test]
async fn legacy_clients_get_questions_and_messages() {
    let server = Server::start("mcp-conformance", &[]).await;
    let mut bridge = start(&server.url, &[], &[]);
    shake_hands(&mut bridge).await;
    let asking = call("test_elicitation", json!({"message": "who?"}));
    let question = ask(&mut bridge, &asking).await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let content = json!({"username": "ada", "email": "a@b.c"});
    let accepted = json!({"action": "accept", "content": content});
    let answer = response(&question["id"], "result", accepted);
    let result = ask(&mut bridge, &answer.to_string()).await;
    assert_eq!(result["id"], 1, "{result}");
    assert_contains(&result.to_string(), "ada");
    bridge.send(call("test_tool_with_logging", json!({}))).await;
    while bridge.message().await["method"] != "notifications/message" {}
}

#[tokio::test]
async fn server_that_restarts_is_waited_for() {
    let port = free_port();
    let first = serve(port).await;
    let folder = Folder::new();
    let log = folder.path("log");
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", r#"exec "$0" bridge "$1" 2> "$2""#]);
    command.args([&*binary("mcp-gateway"), first.url.as_ref(), log.as_ref()]);
    let mut bridge = StdioServer::spawn(command, &[]);
    shake_hands(&mut bridge).await;
    let before = ask(&mut bridge, &echo()).await;
    assert!(before["result"].is_object(), "{before}");
    first.kill().await;
    bridge.send(&echo()).await;
    // After several tries.
    wait_until("a refused call", async || {
        let log = std::fs::read_to_string(&log).unwrap();
        log.contains("does not answer; circuit breaker open")
    })
    .await;
    let _second = serve(port).await;
    assert_eq!(bridge.answer().await, before);
    bridge.close().await;
}

#[tokio::test]
async fn tools_of_a_server_that_starts_later_appear() {
    let port = free_port();
    let mut bridge = start(&format!("http://127.0.0.1:{port}/mcp"), &[], &[]);
    shake_hands(&mut bridge).await;
    assert_eq!(tools(&mut bridge).await, [""; 0]);
    let _server = serve(port).await;
    for list in ["tools", "resources", "prompts"] {
        let changed = bridge.message().await;
        let method = format!("notifications/{list}/list_changed");
        assert_eq!(changed["method"], method, "{changed}");
    }
    let tools = tools(&mut bridge).await;
    assert!(tools.iter().any(|tool| tool == "echo"), "{tools:?}");
}

#[tokio::test]
async fn gateway_behind_it_keeps_its_tools_and_instructions() {
    let backend = Server::start("mcp-conformance", &[]).await;
    let one = format!("one={}", backend.url);
    let args = ["--backend", &one, "--events", "memory"];
    let gateway = Server::with_args("mcp-gateway", &args, &[]).await;
    wait_until("its tools", async || {
        let tools = gateway.result("tools/list", json!({})).await;
        tools.to_string().contains("one__echo")
    })
    .await;
    let mut bridge = start(&gateway.url, &[], &[]);
    let instructions = shake_hands(&mut bridge).await;
    assert_starts_with(&instructions, "Tools of several servers");
    let tools = tools(&mut bridge).await;
    for name in ["gateway_status", "one__echo"] {
        assert!(tools.iter().any(|tool| tool == name), "{tools:?}");
    }
    let status = ask(&mut bridge, &call("gateway_status", json!({}))).await;
    assert_contains(&status.to_string(), "running");
    bridge.close().await;
}

#[tokio::test]
async fn tokens_come_from_a_variable_or_a_file() {
    let server = Server::start("mcp-conformance", &[("MCP_TOKEN", "right-of-16-chars")]).await;
    let (right, wrong) = ("right-of-16-chars", "wrong-of-16-chars");
    for (token, works) in [(right, true), (wrong, false)] {
        let mut bridge = start(&server.url, &[], &[("MCP_TOKEN", token)]);
        let answer = ask(&mut bridge, &echo()).await;
        let is_error = answer["result"]["isError"] == true || answer["error"].is_object();
        assert_eq!(is_error, !works, "{answer}");
        assert_eq!(answer["id"], 1);
        assert_lacks(&answer.to_string(), token);
        bridge.close().await;
    }
    let folder = Folder::new();
    let file = folder.write("token", right);
    let mut bridge = start(&server.url, &["--token-file", &file], &[]);
    ask(&mut bridge, &echo()).await;
    // Each change of it counts at once.
    folder.write("token", wrong);
    let refused = ask(&mut bridge, &echo()).await;
    assert_contains(&refused, "it refuses the token of its file");
    folder.write("token", "right-of-16-chars\n");
    let answer = ask(&mut bridge, &echo()).await;
    assert!(answer["result"]["isError"] != true, "{answer}");
    bridge.close().await;
    // A file that is not there yet, and a variable that must be set.
    let mut bridge = start(&server.url, &["--token-file", "/nowhere"], &[]);
    let refused = ask(&mut bridge, &echo()).await;
    assert_contains(&refused.to_string(), "the file of its token cannot be read");
    let mut bridge = start(&server.url, &["--token-env", "UNSET"], &[]);
    assert_eq!(bridge.line().await, None);
    assert_eq!(bridge.exit_code().await, Some(78));
}
