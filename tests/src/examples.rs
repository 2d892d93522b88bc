//! The examples of `mcp-serve`, run as programs.

use mcp_client::Client;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::commands::run;
use crate::harness::{Dialect, Folder, Server, assert_contains, stdio_client};
use crate::listener::subscribe;

const HELLO: &str = "examples/hello";

/// Lists the tools and calls each of them.
async fn check_hello(client: &Client) {
    let info = client.server().unwrap();
    assert_contains(&info.server_info.get(), r#""name":"hello","#);
    assert_contains(&info.server_info.get(), r#""version":"1.2.3""#);
    let tools = client.list("tools/list", "tools").await.unwrap();
    let names = tools.iter().map(|tool| {
        let tool: Value = serde_json::from_str(tool.get()).unwrap();
        tool["name"].as_str().unwrap().to_owned()
    });
    assert_eq!(names.collect::<Vec<_>>(), ["add", "greet"]);
    for (name, arguments, text) in [
        ("add", json!({"a": 1, "b": 2.5}), "3.5"),
        ("greet", json!({"name": "Ada"}), "Hello, Ada!"),
    ] {
        let params = json!({"name": name, "arguments": arguments});
        let result = client.request("tools/call", &params).await.unwrap();
        assert_contains(&result.get(), &format!(r#""text":"{text}""#));
    }
}

#[tokio::test]
async fn hello_serves_http_and_stdio() {
    let server = Server::start(HELLO, &[]).await;
    check_hello(&server.client().await).await;
    check_hello(&stdio_client(HELLO, &[]).await).await;

    let call = json!({"name": "add", "arguments": {"a": "one", "b": 2}});
    let error = server.error("tools/call", call).await;
    assert_has!(&error["data"], {"kind": "invalid_params", "field": "a"});
}

#[tokio::test]
async fn each_server_reports_the_version_of_its_crate() {
    let fixture = "mcp-conformance";
    for (program, name, version) in [
        (HELLO, "hello", "1.2.3"),
        (fixture, fixture, env!("CARGO_PKG_VERSION")),
    ] {
        let told = run(program, &["--version"], &[]).stdout;
        assert_eq!(told, format!("{name} {version}\n"));
        let server = Server::start(program, &[]).await;
        let info = server.result("mcp.getServerInfo", json!({})).await;
        assert_has!(&info, {"name": name, "version": version});
    }
}

#[test]
fn options_choose_among_functions_too() {
    let tools = |args: &[&str]| run(HELLO, &[&["--print-tools"], args].concat(), &[]).stdout;
    for args in [&[][..], &["--read-only"], &["--toolsets", "all"]] {
        assert!(tools(args).contains(r#""name": "greet""#), "{args:?}");
    }
    let toolsets = run(HELLO, &["--print-toolsets"], &[]).stdout;
    let toolsets: Value = serde_json::from_str(&toolsets).unwrap();
    assert_eq!(toolsets, json!(["default"]));
    let refused = run(HELLO, &["--print-tools", "--toolsets", "more"], &[]);
    assert_eq!(refused.code, 78);
    assert_contains(&refused.stderr, "--toolsets");
}

#[tokio::test]
async fn axum_example_applies_tokens_and_limits() {
    let env = [
        ("MCP_TOKEN", "s3cret-of-16-chars"),
        ("MCP_BODY_LIMIT", "1000"),
    ];
    let mut server = Server::start("examples/axum", &env).await;
    let page = server.request("GET", "/", &[]).await;
    assert_contains(&page.body, "MCP");

    let token = ("authorization", "Bearer s3cret-of-16-chars");
    let ping = Dialect::Unversioned.request("1", "ping", "");
    let foreign = ("origin", "http://evil.example");
    for (headers, body, status) in [
        (&[token][..], &ping, 200),
        (&[], &ping, 401),
        (&[token, foreign], &ping, 403),
        (&[token], &"x".repeat(1001), 413),
    ] {
        let reply = server.post_with(headers, body.clone()).await;
        assert_eq!(reply.status, status);
    }
    let call = r#""name":"add","arguments":{"a":1,"b":2}"#;
    let call = Dialect::Unversioned.request("1", "tools/call", call);
    let reply = server.post_with(&[token], call).await;
    assert_contains(&reply.body, r#""text":"3""#);

    let fields = ["Authorization: Bearer s3cret-of-16-chars"];
    let (mut stream, status) = subscribe(&server.url, &fields).await;
    assert_eq!(status, 200);
    server.signal(Signal::SIGINT);
    assert_contains(&stream.rest().await, r#""result":{"#);
    assert_eq!(server.wait_for_exit().await, Some(0));
}

/// A tool, a resource and an option of its own.
#[tokio::test]
async fn memo_writes_and_reads() {
    let home = Folder::new();
    let folder = home.path("memo");
    let env = [("MEMO_FOLDER", &*folder)];
    let server = Server::start("examples/memo", &env).await;
    let memo = json!({"name": "milk", "text": "two litres"});
    let call = json!({"name": "write_memo", "arguments": &memo});
    let error = server.error("mcp.callTool", call).await;
    assert_contains(error["message"].as_str().unwrap(), "set MEMO_FOLDER");
    std::fs::create_dir(&folder).unwrap();
    let written = server.call("write_memo", memo).await;
    assert_eq!(written["uri"], "memo://milk");
    let read = json!({"uri": "memo://milk"});
    let read = server.result("resources/read", read).await;
    assert_eq!(read["contents"][0]["text"], "two litres");
}
