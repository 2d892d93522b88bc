//! Backends over HTTP that restart, refuse requests and break connections.

use mcp_client::EraChoice;
use serde_json::json;

use super::env::{Folder, Gateway, failure, text, tokens};
use super::input_requests::call;
use super::test_proxy::{ProxyMode, TestProxy};
use crate::harness::{Server, assert_contains, assert_lacks, wait_until};

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
async fn http_error_is_returned_and_not_repeated_and_the_backend_recovers() {
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
        // A server that cannot be reached for a while.
        proxy.set_target("http://127.0.0.1:1/mcp");
        let name = json!({"name": "Ada"});
        gateway.backend_failure("b__greet", name).await;
        proxy.set_target(&server.url);
        gateway.assert_answers("b").await;
    }
}

/// R15 and R16: a call whose connection broke may have taken effect.
#[tokio::test]
async fn circuit_breaker_opens_after_five_failures_and_only_idempotent_calls_are_repeated() {
    let server = Server::start("mcp-conformance", &[]).await;
    let (proxy, gateway) = behind_proxy(&server, ProxyMode::Legacy).await;
    proxy.set_mode(ProxyMode::Break);
    let query = || gateway.backend_failure("b__database_query", json!({"sql": "x"}));
    for _ in 0..5 {
        query().await;
    }
    assert_eq!(proxy.count(r#""tools/call""#), 5);
    for _ in 0..20 {
        assert_contains(&query().await, "the next try is in");
    }
    assert_eq!(proxy.count(r#""tools/call""#), 5, "sent while open");
    let status = gateway.backend("b").await;
    assert_eq!(status["status"], "failed", "{status}");
    let wait = status["next_try_s"].as_f64().unwrap();
    assert!((0.0..=30.0).contains(&wait), "{wait}");
    // A restart by the operator closes it at once.
    proxy.set_mode(ProxyMode::Legacy);
    gateway.restart().await;
    gateway.until("b", "running").await;
    gateway.assert_answers("b").await;
    proxy.set_mode(ProxyMode::Break);
    let name = json!({"name": "Ada"});
    gateway.backend_failure("b__greet", name).await;
    assert_eq!(proxy.count(r#""tools/call""#), 5 + 1 + 2, "it is read-only");
}

/// A server that has gone since the last look is asked twice.
#[tokio::test]
async fn call_of_a_backend_that_has_just_gone_says_why() {
    let gone = Server::start("mcp-conformance", &[]).await;
    let other = Server::start("mcp-conformance", &[]).await;
    let config = format!(
        "[backends.b]\nurl = {:?}\n[backends.c]\nurl = {:?}\n",
        gone.url, other.url
    );
    let args = ["--probe-interval", "3600000"];
    let gateway = Gateway::start(Folder::new(), &config, &args).await;
    gateway.until("b", "running").await;
    gone.kill().await;
    let name = json!({"name": "Ada"});
    let text = gateway.backend_failure("b__greet", name).await;
    assert_contains(&text, "cannot be reached: the connection was refused");
}

/// A server that has gone, or that refuses the gateway, is shown without a call, and so is its return.
#[tokio::test]
async fn dead_or_refusing_backend_is_shown_without_a_call() {
    let server = Server::start("mcp-conformance", &[]).await;
    let proxy = TestProxy::start(&server.url, ProxyMode::Legacy).await;
    let gone = Server::start("mcp-conformance", &[]).await;
    let [b, url] = [&proxy.url, &gone.url];
    let config = format!("[backends.b]\nurl = {b:?}\n[backends.gone]\nurl = {url:?}\n");
    let args = ["--probe-interval", "100"];
    let gateway = Gateway::start(Folder::new(), &config, &args).await;
    let until_shown = async |key: &str, is_up: bool, error: &str| {
        let (status, up) = if is_up { ("running", 1) } else { ("failed", 0) };
        gateway.until(key, status).await;
        let text = gateway.backend(key).await["last_error"].to_string();
        assert!(is_up || text.contains(error), "{text}");
        let line = format!("mcp_gateway_backend_up{{backend=\"{key}\"}} {up}\n");
        wait_until(&line, async || gateway.metrics().await.contains(&line)).await;
    };
    until_shown("b", true, "").await;
    until_shown("gone", true, "").await;
    gateway.until_ready(200).await;
    proxy.set_mode(ProxyMode::Refuse);
    until_shown("b", false, "401").await;
    gateway.until_ready(503).await;
    proxy.set_mode(ProxyMode::Legacy);
    until_shown("b", true, "").await;
    gateway.until_ready(200).await;
    gone.kill().await;
    let cause = "cannot be reached: the connection was refused";
    until_shown("gone", false, cause).await;
    gateway.until_ready(503).await;
    assert_eq!(proxy.count(r#""tools/call""#), 0);
    gateway.assert_answers("b").await;
}

/// The next probe by its interval would come after the test. With tokens each caller has a session of its own, which one that
/// comes later has to begin.
#[tokio::test]
async fn backend_is_probed_at_once_after_a_fault_of_any_session() {
    let server = Server::start("mcp-conformance", &[]).await;
    let both = &["alice", "bob"][..];
    for (principals, caller) in [(&[][..], "alice"), (both, "alice"), (both, "bob")] {
        for mode in [ProxyMode::Refuse, ProxyMode::Break, ProxyMode::Status(502)] {
            let proxy = TestProxy::start(&server.url, ProxyMode::Legacy).await;
            let config = format!("[backends.b]\nurl = {:?}\n", proxy.url);
            let folder = Folder::new();
            let tokens = folder.write("tokens", &tokens(principals));
            let args = ["--probe-interval", "3600000", "--token-file", &tokens];
            let args = if principals.is_empty() {
                &args[..2]
            } else {
                &args[..]
            };
            let gateway = Gateway::start(folder, &config, args).await;
            let greet = async |caller: &str| {
                let name = json!({"name": "Ada"});
                gateway.told(caller, "b__greet", name).await
            };
            wait_until("a call", async || greet("alice").await.contains("Hello")).await;
            let probes = || proxy.count(r#""method":"ping""#);
            assert_eq!(probes(), 0);
            proxy.set_mode(mode);
            assert_lacks(&greet(caller).await, "Hello");
            wait_until("the probe", async || probes() > 0).await;
        }
    }
}

#[tokio::test]
async fn sse_backend_works_by_setting_and_by_detection() {
    let server = Server::with_args("mcp-conformance", &["--sse"], &[]).await;
    let url = format!("url = {:?}", server.url.replace("/mcp", "/sse"));
    let mut gateways = Vec::new();
    for (lines, revision) in [
        ("", "2025-11-25"),
        ("transport = \"sse\"", "2025-11-25"),
        ("type = \"sse\"\nprotocol = \"2024-11-05\"", "2024-11-05"),
    ] {
        let gateway = Gateway::with(&format!("{url}\n{lines}")).await;
        gateway.assert_answers("b").await;
        assert_eq!(gateway.backend("b").await["protocol"], revision, "{lines}");
        for era in [EraChoice::Newest, EraChoice::Legacy] {
            let client = gateway.client(era, None).await;
            let message = json!({"message": "Who?"});
            let (result, asked) = Box::pin(call(&client, "b__test_elicitation", message)).await;
            assert_eq!(asked, ["elicitation/create"], "{era:?} {lines}");
            assert!(text(&result).contains("accept"), "{result}");
        }
        gateways.push(gateway);
    }
    // Unlike one over Streamable HTTP, it is seen to end.
    server.kill().await;
    for gateway in gateways {
        gateway.until("b", "failed").await;
    }
}
