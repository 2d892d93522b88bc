//! The record of calls: one end each, its trace, and never what was said.

use std::time::Duration;

use mcp_client::EraChoice;
use serde_json::json;

use super::front::{Front, Manner};
use super::lab::{Folder, Gateway, failure, fixture};
use super::passing::count;
use crate::harness::{Server, eventually};

#[tokio::test]
async fn every_end_is_told_once() {
    let folder = Folder::new();
    let config = format!(
        "[backends.b]\n{}\ndeny = [\"slow_compute\"]\ntimeout = \"2s\"\n",
        fixture(&["--stdio"])
    );
    let gateway = Gateway::running(folder, &config).await;

    gateway.tool("b:greet", json!({"name": "Ada"})).await;
    gateway
        .answer("b.slow_compute", json!({"seconds": 1}))
        .await;
    gateway.answer("b__test_error_handling", json!({})).await;
    gateway.answer("b__greet", json!({"nonsense": 1})).await;
    let late = gateway
        .answer("b__slow", json!({"step": 50, "steps": 1000}))
        .await;
    assert!(
        failure(&late).contains("b did not answer within 2 s"),
        "{late}"
    );
    let client = gateway.client(EraChoice::Newest, None).await;
    let slow = tokio::spawn(async move {
        let call = json!({"name": "b__slow", "arguments": {"step": 50, "steps": 1000}});
        client.request("tools/call", &call).await
    });
    eventually("it to run", async || {
        count(&gateway).await.filter(|count| *count > 0)
    })
    .await;
    slow.abort();
    eventually("it to end", async || {
        count(&gateway).await.filter(|count| *count == 0)
    })
    .await;

    let wanted = ["ok", "denied", "failed", "failed", "timed_out", "cancelled"];
    let ends = eventually("all ends", async || {
        let mut ends = gateway.calls().await;
        ends.retain(|end| end["tool_name"] != "b__count_slow");
        Some(ends).filter(|ends| ends.len() >= wanted.len())
    })
    .await;
    let found: Vec<&str> = ends
        .iter()
        .map(|end| end["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(found, wanted);
    let backend = gateway.backend("b").await;
    assert!(backend["errors"].as_u64().unwrap() >= 5, "{backend}");
    assert!(backend["p50_ms"].is_number() && backend["p99_ms"].is_number());
    // What an event says of the arguments is their shape.
    assert!(!ends[0].to_string().contains("Ada"), "{}", ends[0]);
    assert!(
        ends[0]["arguments"].to_string().contains("name"),
        "{}",
        ends[0]
    );
    // Nothing more comes later: real time, since nothing happens.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut later = gateway.calls().await;
    later.retain(|end| end["tool_name"] != "b__count_slow");
    assert_eq!(later.len(), wanted.len());
}

#[tokio::test]
async fn the_trace_of_the_client_goes_on_to_the_event_and_the_backend() {
    let server = Server::start("mcp-conformance", &[]).await;
    let front = Front::of(&server.url, Manner::Pass).await;
    let gateway = Gateway::with(&format!("url = {:?}", front.url)).await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"b__greet","arguments":{"name":"Ada"}META}}"#;
    let in_header = "4bf92f3577b34da6a3ce929d0e0e4736";
    let in_meta = "5bf92f3577b34da6a3ce929d0e0e4736";
    let parent = |trace: &str| format!("00-{trace}-00f067aa0ba902b7-01");
    let header = parent(in_header);
    gateway
        .post_with(&[("traceparent", &header)], call.replace("META", ""))
        .await;
    let meta = format!(r#","_meta":{{"traceparent":"{}"}}"#, parent(in_meta));
    gateway.post(call.replace("META", &meta)).await;
    gateway
        .post_with(
            &[("traceparent", "00-zz-evil-01")],
            call.replace("META", ""),
        )
        .await;
    gateway.ends(3).await;
    for trace in [in_header, in_meta] {
        let found = gateway.own("get_events", json!({"trace_id": trace})).await;
        assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
        assert_eq!(front.count(&format!("00-{trace}-")), 1, "in _meta");
        let seen = front.seen();
        let mut headers = seen
            .iter()
            .filter_map(|seen| seen.headers.get("traceparent"));
        assert!(headers.any(|header| header.to_str().unwrap().contains(trace)));
    }
    // The span is the gateway's own, and what was no trace is not passed on.
    assert_eq!(front.count("00f067aa0ba902b7"), 0);
    assert_eq!(front.count("zz-evil"), 0);
}

#[tokio::test]
async fn backends_come_and_go_on_record() {
    let gateway = Gateway::with(&fixture(&["odd", "dies"])).await;
    let answer = gateway.answer("b__work", json!({})).await;
    assert!(failure(&answer).contains("backend b"), "{answer}");
    gateway.until("b", "running").await;
    for kind in [
        "gateway.backend_registered",
        "gateway.backend_started",
        "gateway.backend_failed",
    ] {
        let found = eventually(kind, async || {
            let found = gateway.own("get_events", json!({"event_type": kind})).await;
            Some(found).filter(|found| !found.as_array().unwrap().is_empty())
        })
        .await;
        assert_eq!(found[0]["metadata"]["backend"], "b", "{found}");
        assert_eq!(found[0]["metadata"]["namespace"], "b");
    }
}

/// R27: what is wrong with the log is no call's concern.
#[tokio::test]
async fn calls_end_well_whatever_the_event_log_does() {
    let fixture = format!("[backends.b]\n{}\n", fixture(&["--stdio"]));
    for damage in ["no folder", "not to be written", "not a log", "a folder"] {
        let folder = Folder::new();
        let events = match damage {
            "no folder" => format!("{}/events.db", folder.write("in-the-way", "")),
            "not to be written" => "/proc/events.db".to_owned(),
            "not a log" => folder.write("events.db", &"not a log ".repeat(10_000)),
            _ => folder.path(""),
        };
        let gateway = Gateway::start(folder, &fixture, &["--events", &events]).await;
        gateway.until("b", "running").await;
        let calls = (0..50).map(|_| gateway.tool("b__greet", json!({"name": "Ada"})));
        for result in futures_util::future::join_all(calls).await {
            assert_eq!(super::lab::text(&result), "Hello, Ada!", "{damage}");
        }
        let status = gateway.own("gateway_status", json!({})).await;
        let log = &status["event_log"];
        if damage == "not a log" {
            // It is put aside, and a new one begun.
            assert_eq!(gateway.ends(50).await.len(), 50);
            assert!(!gateway.folder.lines("events.db.corrupt").is_empty());
        } else {
            assert_eq!(log["status"], "degraded", "{damage}: {status}");
            assert!(log["reason"].is_string(), "{damage}: {status}");
        }
    }
}
