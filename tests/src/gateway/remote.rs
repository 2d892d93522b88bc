//! Backends over HTTP that restart, refuse and break off.

use std::time::{Duration, Instant};

use serde_json::json;

use super::front::{Front, Manner};
use super::lab::{Gateway, failure, text};
use crate::harness::Server;

async fn behind(server: &Server, manner: Manner) -> (Front, Gateway) {
    let front = Front::of(&server.url, manner).await;
    let gateway = Gateway::with(&format!("url = {:?}", front.url)).await;
    (front, gateway)
}

/// R15: another server in its place knows no session of the first.
#[tokio::test]
async fn a_lost_session_is_renewed_without_a_visible_error() {
    let key = |key: &'static str| async move {
        Server::with_args("mcp-conformance", &["--session-key", key], &[]).await
    };
    let first = key("the first server's key, which is long enough").await;
    let (front, gateway) = behind(&first, Manner::Old).await;
    assert_eq!(
        text(&gateway.tool("b__greet", json!({"name": "Ada"})).await),
        "Hello, Ada!"
    );
    let second = key("the second server's key, which is long enough").await;
    front.lead_to(&second.url);
    first.kill().await;
    let before = front.count(r#""initialize""#);
    let calls = (0..10).map(|_| gateway.tool("b__greet", json!({"name": "Ada"})));
    for result in futures_util::future::join_all(calls).await {
        assert_eq!(text(&result), "Hello, Ada!");
    }
    let handshakes = front.count(r#""initialize""#) - before;
    assert!(handshakes <= 1, "{handshakes} new handshakes");
    assert_eq!(gateway.backend("b").await["errors"], 0);
}

/// R15.
#[tokio::test]
async fn a_refusal_is_told_once() {
    let server = Server::start("mcp-conformance", &[]).await;
    for status in [401, 403, 429, 503] {
        let (front, gateway) = behind(&server, Manner::Old).await;
        front.be(Manner::Status(status));
        let answer = gateway.answer("b__greet", json!({"name": "Ada"})).await;
        let words = failure(&answer);
        assert!(
            words.contains(&status.to_string()) || words.contains("backend b"),
            "{words}"
        );
        assert_eq!(front.count(r#""tools/call""#), 1, "{status}: {words}");
        front.be(Manner::Old);
        assert_eq!(
            text(&gateway.tool("b__greet", json!({"name": "Ada"})).await),
            "Hello, Ada!"
        );
    }
}

/// R15: what broke off may have been done.
#[tokio::test]
async fn only_what_may_be_done_twice_is_sent_twice() {
    let server = Server::start("mcp-conformance", &[]).await;
    let (front, gateway) = behind(&server, Manner::Old).await;
    front.be(Manner::Break);
    let answer = gateway
        .answer("b__database_query", json!({"sql": "x"}))
        .await;
    assert!(failure(&answer).contains("backend b"), "{answer}");
    assert_eq!(front.count(r#""tools/call""#), 1);
    let answer = gateway.answer("b__greet", json!({"name": "Ada"})).await;
    assert!(failure(&answer).contains("backend b"), "{answer}");
    assert_eq!(front.count(r#""tools/call""#), 3, "it only reads");
}

/// R15: nobody listens there (any more).
#[tokio::test]
async fn who_cannot_be_reached_comes_back() {
    let server = Server::start("mcp-conformance", &[]).await;
    let (front, gateway) = behind(&server, Manner::Pass).await;
    front.lead_to("http://127.0.0.1:1/mcp");
    let answer = gateway.answer("b__greet", json!({"name": "Ada"})).await;
    assert!(failure(&answer).contains("backend b"), "{answer}");
    front.lead_to(&server.url);
    assert_eq!(
        text(&gateway.tool("b__greet", json!({"name": "Ada"})).await),
        "Hello, Ada!"
    );
}

/// R16.
#[tokio::test]
async fn after_five_failures_in_a_row_nobody_is_asked_for_a_while() {
    let server = Server::start("mcp-conformance", &[]).await;
    let (front, gateway) = behind(&server, Manner::Old).await;
    front.be(Manner::Break);
    for _ in 0..5 {
        gateway
            .answer("b__database_query", json!({"sql": "x"}))
            .await;
    }
    let asked = front.count(r#""tools/call""#);
    assert_eq!(asked, 5);
    let mut times = Vec::new();
    for _ in 0..101 {
        let started = Instant::now();
        let answer = gateway
            .answer("b__database_query", json!({"sql": "x"}))
            .await;
        times.push(started.elapsed());
        assert!(failure(&answer).contains("the next try is in"), "{answer}");
    }
    times.sort_unstable();
    // 5 ms, on a machine of its own.
    assert!(times[50] < Duration::from_millis(25), "{:?}", times[50]);
    assert_eq!(front.count(r#""tools/call""#), asked, "asked meanwhile");
    let status = gateway.backend("b").await;
    assert_eq!(status["status"], "failed", "{status}");
    let wait = status["next_try_s"].as_f64().unwrap();
    assert!((15.0..=30.0).contains(&wait), "{wait}");
    // Somebody who has mended it need not wait.
    front.be(Manner::Old);
    gateway
        .own("gateway_restart", json!({"backend": "b"}))
        .await;
    gateway.until("b", "running").await;
    assert_eq!(
        text(&gateway.tool("b__greet", json!({"name": "Ada"})).await),
        "Hello, Ada!"
    );
}
