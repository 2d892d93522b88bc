//! A small server, written with the SDK for Python and with the SDK for Rust.

use mcp_client::EraChoice;
use serde_json::{Value, json};
use tokio::process::Child;

use super::super::env::{Gateway, failure, request, text};
use super::super::input_requests::call;
use super::super::test_proxy::{ProxyMode, TestProxy};
use super::{
    assert_same_lists, cancel_after_progress, child, direct, kill_and_wait_for_restart, spawn_http,
};
use crate::harness::real::third_party_server;
use crate::harness::{assert_contains, wait_until};

/// FastMCP asks questions only below 2026-07-28.
#[tokio::test]
async fn fastmcp_can_ask_where_it_is_held_at_2025_11_25() {
    let Some(argv) = third_party_server("FASTMCP") else {
        return;
    };
    let held = format!("{}\nprotocol = \"2025-11-25\"", child(&argv));
    let gateway = Gateway::with_backends(&[("b", &child(&argv)), ("held", &held)]).await;
    wait_until("their tools", async || {
        let names = gateway.tool_names().await;
        let is_listed = |name: &str| names.iter().any(|listed| listed == name);
        is_listed("b__ask") && is_listed("held__ask")
    })
    .await;
    for era in [EraChoice::Newest, EraChoice::Legacy] {
        let client = gateway.client(era, None).await;
        let (refused, _) = Box::pin(call(&client, "b__ask", json!({}))).await;
        assert_contains(text(&refused), "2026-07-28");
        let (hello, asked) = Box::pin(call(&client, "held__ask", json!({}))).await;
        assert_eq!(text(&hello), "Hello, Ada!", "{era:?}");
        assert_eq!(asked, ["elicitation/create"], "{era:?}");
    }
}

#[tokio::test]
async fn python_and_rust_sdk_work_behind_the_gateway() {
    for argv in ["PYTHON", "RMCP"]
        .into_iter()
        .filter_map(third_party_server)
    {
        let gateway = Gateway::with(&child(&argv)).await;
        assert_eq!(gateway.backend("b").await["protocol"], "2026-07-28");
        Box::pin(assert_same_lists(&gateway, &direct(&argv).await)).await;
        Box::pin(assert_all_features(&gateway)).await;
        kill_and_wait_for_restart(&gateway, argv.last().unwrap()).await;
        assert_eq!(sum(&gateway, json!({"a": 20, "b": 22})).await, 42);
    }
}

#[tokio::test]
async fn python_sdk_works_over_http_and_after_its_restart() {
    let Some(argv) = third_party_server("PYTHON") else {
        return;
    };
    let (first, url) = spawn(&argv).await;
    let proxy = TestProxy::start(&url, ProxyMode::Forward).await;
    let gateway = Gateway::with(&format!("url = {:?}", proxy.url)).await;
    Box::pin(assert_all_features(&gateway)).await;
    drop(first);
    let (_second, url) = spawn(&argv).await;
    proxy.set_target(&url);
    assert_eq!(sum(&gateway, json!({"a": 20, "b": 22})).await, 42);
}

/// Starts the server on a free port, and returns its URL.
async fn spawn(argv: &[String]) -> (Child, String) {
    let (server, line) = spawn_http(argv, &["--http"], 0, "running on ").await;
    let (_, url) = line.split_once("running on ").unwrap();
    let url = format!("{}/mcp", url.split(' ').next().unwrap());
    (server, url)
}

async fn sum(gateway: &Gateway, arguments: Value) -> i64 {
    let result = gateway.tool("b__add", arguments).await;
    let sum: Value = serde_json::from_str(text(&result)).unwrap();
    sum["sum"].as_i64().unwrap()
}

async fn assert_all_features(gateway: &Gateway) {
    assert_eq!(sum(gateway, json!({"a": 1, "b": 2})).await, 3);
    let failed = failure(&gateway.answer("b__fail", json!({})).await);
    assert_contains(&failed, "it cannot be done");
    for era in [EraChoice::Newest, EraChoice::Legacy] {
        let client = gateway.client(era, None).await;
        let ask = async |method: &str, params: Value| request(&client, method, params).await;
        let added = json!({"name": "b__add", "arguments": {"a": 1, "b": 2}});
        let added = ask("tools/call", added).await;
        assert_eq!(added["structuredContent"], json!({"sum": 3}), "{era:?}");
        for (uri, text) in [("note://greeting", "Grüße ✓"), ("note://7/text", "Note 7")] {
            let read = ask("resources/read", json!({"uri": uri})).await;
            assert_eq!(read["contents"][0]["text"], text, "{era:?}");
        }
        let greet = json!({"name": "b__greet", "arguments": {"name": "Ada"}});
        let greet = ask("prompts/get", greet).await;
        let words = &greet["messages"][0]["content"]["text"];
        assert_eq!(*words, "Say hello to Ada.", "{era:?}");
        let (hello, asked) = Box::pin(call(&client, "b__ask", json!({}))).await;
        assert_eq!(text(&hello), "Hello, Ada!", "{era:?}");
        assert_eq!(asked, ["elicitation/create"], "{era:?}");
        cancel_after_progress(&client, "b__wait", json!({})).await;
        wait_until("the end of the cancelled call", async || {
            let waiting = json!({"name": "b__waiting", "arguments": {}});
            let waiting = ask("tools/call", waiting).await;
            waiting["structuredContent"]["sum"] == 0
        })
        .await;
    }
}
