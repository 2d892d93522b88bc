//! Backends over HTTP that restart, refuse requests and break connections.

use std::time::{Duration, Instant};

use serde_json::json;

use super::env::{Gateway, failure, text};
use super::test_proxy::{ProxyMode, TestProxy};
use crate::harness::Server;

async fn behind_proxy(server: &Server, mode: ProxyMode) -> (TestProxy, Gateway) {
    let proxy = TestProxy::start(&server.url, mode).await;
    let gateway = Gateway::with(&format!("url = {:?}", proxy.url)).await;
    (proxy, gateway)
}

/// R15: a new server at the same URL does not know the session of the first one.
#[tokio::test]
async fn lost_session_is_renewed_without_error() {
    let start =
        async |key| Server::with_args("mcp-conformance", &["--session-key", key], &[]).await;
    let first = start("the first server's key, which is long enough").await;
    let (proxy, gateway) = behind_proxy(&first, ProxyMode::Legacy).await;
    gateway.assert_answers("b").await;
    let second = start("the second server's key, which is long enough").await;
    proxy.set_target(&second.url);
    first.kill().await;
    let before = proxy.count(r#""initialize""#);
    let calls = (0..10).map(|_| gateway.tool("b__greet", json!({"name": "Ada"})));
    for result in futures_util::future::join_all(calls).await {
        assert_eq!(text(&result), "Hello, Ada!");
    }
    let handshakes = proxy.count(r#""initialize""#) - before;
    assert!(handshakes <= 1, "{handshakes} new handshakes");
    assert_eq!(gateway.backend("b").await["errors"], 0);
}

/// R15.
#[tokio::test]
async fn http_error_is_returned_and_not_repeated() {
    let server = Server::start("mcp-conformance", &[]).await;
    for status in [401, 403, 429, 503] {
        let (proxy, gateway) = behind_proxy(&server, ProxyMode::Legacy).await;
        proxy.set_mode(ProxyMode::Status(status));
        let answer = gateway.answer("b__greet", json!({"name": "Ada"})).await;
        let text = failure(&answer);
        let is_named = text.contains(&status.to_string()) || text.contains("backend b");
        assert!(is_named, "{text}");
        assert_eq!(proxy.count(r#""tools/call""#), 1, "{status}: {text}");
        proxy.set_mode(ProxyMode::Legacy);
        gateway.assert_answers("b").await;
    }
}

/// R15: a call whose connection broke may have taken effect.
#[tokio::test]
async fn only_idempotent_calls_are_repeated() {
    let server = Server::start("mcp-conformance", &[]).await;
    let (proxy, gateway) = behind_proxy(&server, ProxyMode::Legacy).await;
    proxy.set_mode(ProxyMode::Break);
    let sql = json!({"sql": "x"});
    gateway.backend_failure("b__database_query", sql).await;
    assert_eq!(proxy.count(r#""tools/call""#), 1);
    let name = json!({"name": "Ada"});
    gateway.backend_failure("b__greet", name).await;
    assert_eq!(proxy.count(r#""tools/call""#), 3, "it is read-only");
}

/// R15.
#[tokio::test]
async fn unreachable_backend_recovers() {
    let server = Server::start("mcp-conformance", &[]).await;
    let (proxy, gateway) = behind_proxy(&server, ProxyMode::Forward).await;
    proxy.set_target("http://127.0.0.1:1/mcp");
    let name = json!({"name": "Ada"});
    gateway.backend_failure("b__greet", name).await;
    proxy.set_target(&server.url);
    gateway.assert_answers("b").await;
}

/// R16.
#[tokio::test]
async fn circuit_breaker_opens_after_five_failures() {
    let server = Server::start("mcp-conformance", &[]).await;
    let (proxy, gateway) = behind_proxy(&server, ProxyMode::Legacy).await;
    proxy.set_mode(ProxyMode::Break);
    let query = async || {
        gateway
            .answer("b__database_query", json!({"sql": "x"}))
            .await
    };
    for _ in 0..5 {
        query().await;
    }
    assert_eq!(proxy.count(r#""tools/call""#), 5);
    let mut times = Vec::new();
    for _ in 0..101 {
        let started = Instant::now();
        let answer = query().await;
        times.push(started.elapsed());
        assert!(failure(&answer).contains("the next try is in"), "{answer}");
    }
    times.sort_unstable();
    // 5 ms on an idle machine.
    assert!(times[50] < Duration::from_millis(25), "{:?}", times[50]);
    assert_eq!(proxy.count(r#""tools/call""#), 5, "sent while open");
    let status = gateway.backend("b").await;
    assert_eq!(status["status"], "failed", "{status}");
    let wait = status["next_try_s"].as_f64().unwrap();
    assert!((15.0..=30.0).contains(&wait), "{wait}");
    // A restart by the operator closes it at once.
    proxy.set_mode(ProxyMode::Legacy);
    let restart = json!({"backend": "b"});
    gateway.own("gateway_restart", restart).await;
    gateway.until("b", "running").await;
    gateway.assert_answers("b").await;
}
