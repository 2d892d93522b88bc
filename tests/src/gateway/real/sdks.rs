//! A small server, the same on the SDKs for Python and Rust.

use std::process::Stdio;

use mcp_client::{Client, EraChoice};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use super::super::asking::call;
use super::super::lab::{Gateway, failure, text};
use super::{child, direct, give_up, kill_and_heal, offers_all_of};
use crate::harness::eventually;
use crate::harness::real::third_party_server;

#[tokio::test]
async fn one_on_the_python_sdk_is_well_behind_the_gateway() {
    if let Some(argv) = third_party_server("PYTHON") {
        as_a_child(&argv).await;
    }
}

#[tokio::test]
async fn one_on_the_rust_sdk_is_well_behind_the_gateway() {
    if let Some(argv) = third_party_server("RMCP") {
        as_a_child(&argv).await;
    }
}

async fn as_a_child(argv: &[String]) {
    let gateway = Gateway::with(&child(argv)).await;
    assert_eq!(gateway.backend("b").await["protocol"], "2026-07-28");
    Box::pin(offers_all_of(&gateway, &direct(argv).await)).await;
    Box::pin(everything_passes(&gateway)).await;
    kill_and_heal(&gateway, argv.last().unwrap()).await;
    assert_eq!(sum(&gateway, json!({"a": 20, "b": 22})).await, 42);
}

#[tokio::test]
async fn one_on_the_python_sdk_is_well_over_http_and_after_its_restart() {
    let Some(argv) = third_party_server("PYTHON") else {
        return;
    };
    let (first, url) = listening(&argv).await;
    let front = super::super::front::Front::of(&url, super::super::front::Manner::Pass).await;
    let gateway = Gateway::with(&format!("url = {:?}", front.url)).await;
    Box::pin(everything_passes(&gateway)).await;
    drop(first);
    let (_second, url) = listening(&argv).await;
    front.lead_to(&url);
    assert_eq!(sum(&gateway, json!({"a": 20, "b": 22})).await, 42);
}

/// The server on a free port, and its URL.
async fn listening(argv: &[String]) -> (Child, String) {
    let mut server = tokio::process::Command::new(&argv[0])
        .args(&argv[1..])
        .arg("--http")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let url = loop {
        let line = lines.next_line().await.unwrap().expect("it listens");
        if let Some((_, rest)) = line.split_once("running on ") {
            break format!("{}/mcp", rest.split(' ').next().unwrap());
        }
    };
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (server, url)
}

async fn sum(gateway: &Gateway, arguments: Value) -> i64 {
    let result = gateway.tool("b__add", arguments).await;
    let sum: Value = serde_json::from_str(text(&result)).unwrap();
    sum["sum"].as_i64().unwrap()
}

async fn everything_passes(gateway: &Gateway) {
    assert_eq!(sum(gateway, json!({"a": 1, "b": 2})).await, 3);
    let failed = failure(&gateway.answer("b__fail", json!({})).await);
    assert!(failed.contains("it cannot be done"), "{failed}");
    for dialect in [EraChoice::Newest, EraChoice::Legacy] {
        let client = gateway.client(dialect, None).await;
        let ask = async |method: &str, params: Value| ask(&client, method, params).await;
        let added = json!({"name": "b__add", "arguments": {"a": 1, "b": 2}});
        let added = ask("tools/call", added).await;
        assert_eq!(added["structuredContent"], json!({"sum": 3}), "{dialect:?}");
        for (uri, text) in [("note://greeting", "Grüße ✓"), ("note://7/text", "Note 7")] {
            let read = ask("resources/read", json!({"uri": uri})).await;
            assert_eq!(read["contents"][0]["text"], text, "{dialect:?}");
        }
        let greet = json!({"name": "b__greet", "arguments": {"name": "Ada"}});
        let greet = ask("prompts/get", greet).await;
        let words = &greet["messages"][0]["content"]["text"];
        assert_eq!(*words, "Say hello to Ada.", "{dialect:?}");
        let (hello, asked) = Box::pin(call(&client, "b__ask", json!({}))).await;
        assert_eq!(text(&hello), "Hello, Ada!", "{dialect:?}");
        assert_eq!(asked, ["elicitation/create"], "{dialect:?}");
        give_up(&client, "b__wait", json!({})).await;
        eventually("nobody to wait", async || {
            let waiting = json!({"name": "b__waiting", "arguments": {}});
            let waiting = ask("tools/call", waiting).await;
            (waiting["structuredContent"]["sum"] == 0).then_some(())
        })
        .await;
    }
}

async fn ask(client: &Client, method: &str, params: Value) -> Value {
    let answer = client.request(method, &params).await;
    let answer = answer.unwrap_or_else(|error| panic!("{method}: {error:?}"));
    serde_json::from_str(answer.get()).unwrap()
}
