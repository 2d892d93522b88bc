//! The event log: one event for each call, with its trace and without its arguments.

use std::time::Duration;

use mcp_client::EraChoice;
use serde_json::{Value, json};

use super::env::{Folder, Gateway, failure, misbehaving, stdio_fixture, text};
use super::test_proxy::{ProxyMode, TestProxy};
use crate::harness::{Server, assert_contains, assert_lacks, eventually};

#[tokio::test]
async fn each_call_is_recorded_once() {
    let settings = "deny = [\"slow_compute\"]\ntimeout = \"2s\"";
    let config = format!("[backends.b]\n{}\n{settings}\n", stdio_fixture());
    let gateway = Gateway::running(Folder::new(), &config).await;

    gateway.tool("b:greet", json!({"name": "Ada"})).await;
    let denied = json!({"seconds": 1});
    gateway.answer("b.slow_compute", denied).await;
    gateway.answer("b__test_error_handling", json!({})).await;
    gateway.answer("b__greet", json!({"nonsense": 1})).await;
    let slow = json!({"step": 50, "steps": 1000});
    let late = failure(&gateway.answer("b__slow", slow).await);
    assert_contains(&late, "b did not answer within 2 s");
    let client = gateway.client(EraChoice::Newest, None).await;
    gateway.abort_slow_call(client).await;

    let wanted = ["ok", "denied", "failed", "failed", "timed_out", "cancelled"];
    let recorded = async || {
        let mut calls = gateway.calls().await;
        calls.retain(|call| call["tool_name"] != "b__count_slow");
        calls
    };
    let ends = eventually("all calls", async || {
        Some(recorded().await).filter(|ends| ends.len() >= wanted.len())
    })
    .await;
    let found: Vec<&Value> = ends.iter().map(|end| &end["outcome"]).collect();
    assert_eq!(found, wanted);
    let backend = gateway.backend("b").await;
    assert!(backend["errors"].as_u64().unwrap() >= 5, "{backend}");
    assert!(backend["p50_ms"].is_number() && backend["p99_ms"].is_number());
    // An event has the types of the arguments, not their values.
    assert_lacks(&ends[0], "Ada");
    assert_contains(&ends[0]["arguments"], "name");
    // Real time, to see that no second event comes.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(recorded().await.len(), wanted.len());
}

#[tokio::test]
async fn trace_of_the_client_reaches_the_event_and_the_backend() {
    let server = Server::start("mcp-conformance", &[]).await;
    let proxy = TestProxy::start(&server.url, ProxyMode::Forward).await;
    let gateway = Gateway::with(&format!("url = {:?}", proxy.url)).await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"b__greet","arguments":{"name":"Ada"}META}}"#;
    let in_header = "4bf92f3577b34da6a3ce929d0e0e4736";
    let in_meta = "5bf92f3577b34da6a3ce929d0e0e4736";
    let parent = |trace: &str| format!("00-{trace}-00f067aa0ba902b7-01");
    let with_header = async |header: &str| {
        let headers = [("traceparent", header)];
        gateway.post_with(&headers, call.replace("META", "")).await
    };
    with_header(&parent(in_header)).await;
    let meta = format!(r#","_meta":{{"traceparent":"{}"}}"#, parent(in_meta));
    gateway.post(call.replace("META", &meta)).await;
    with_header("00-zz-evil-01").await;
    gateway.ends(3).await;
    for trace in [in_header, in_meta] {
        let found = gateway.own("get_events", json!({"trace_id": trace})).await;
        assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
        assert_eq!(proxy.count(&format!("00-{trace}-")), 1, "in _meta");
        let requests = proxy.requests();
        let mut headers = requests.iter();
        let mut headers = headers
            .by_ref()
            .filter_map(|sent| sent.headers.get("traceparent"));
        assert!(headers.any(|header| header.to_str().unwrap().contains(trace)));
    }
    // The span is a new one, and an invalid trace is not forwarded.
    assert_eq!(proxy.count("00f067aa0ba902b7"), 0);
    assert_eq!(proxy.count("zz-evil"), 0);
}

#[tokio::test]
async fn starts_and_failures_of_backends_are_recorded() {
    let gateway = Gateway::with(&misbehaving(&["dies"])).await;
    gateway.backend_failure("b__work", json!({})).await;
    gateway.until("b", "running").await;
    for event in ["registered", "started", "failed"] {
        let found = gateway.events_of(&format!("gateway.backend_{event}")).await;
        assert_has!(found[0]["metadata"], {"backend": "b", "namespace": "b"});
    }
}

/// R27.
#[tokio::test]
async fn calls_succeed_with_a_broken_event_log() {
    let config = format!("[backends.b]\n{}\n", stdio_fixture());
    for damage in ["no folder", "not to be written", "not a log", "a folder"] {
        let folder = Folder::new();
        let events = match damage {
            "no folder" => format!("{}/events.db", folder.write("in-the-way", "")),
            "not to be written" => "/proc/events.db".to_owned(),
            "not a log" => folder.write("events.db", &"not a log ".repeat(10_000)),
            _ => folder.path(""),
        };
        let gateway = Gateway::start(folder, &config, &["--events", &events]).await;
        gateway.until("b", "running").await;
        let calls = (0..50).map(|_| gateway.tool("b__greet", json!({"name": "Ada"})));
        for result in futures_util::future::join_all(calls).await {
            assert_eq!(text(&result), "Hello, Ada!", "{damage}");
        }
        let status = gateway.status().await;
        let log = &status["event_log"];
        if damage == "not a log" {
            // It is renamed, and a new one is created.
            assert_eq!(gateway.ends(50).await.len(), 50);
            assert!(!gateway.folder.lines("events.db.corrupt").is_empty());
        } else {
            assert_eq!(log["status"], "degraded", "{damage}: {status}");
            assert!(log["reason"].is_string(), "{damage}: {status}");
        }
    }
}
