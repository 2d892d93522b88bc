//! The session of seed 003, over stdio and over HTTP.

use serde_json::{Value, json};

use super::env::{Gateway, until_listed_over_stdio};
use crate::documents::documents;
use crate::harness::{Server, assert_contains, binary, wait_until};
use crate::stdio::StdioServer;

#[tokio::test]
async fn session_passes_over_http_and_stdio() {
    let fixture = format!("chora={} --stdio", binary("mcp-conformance").display());
    let env = [
        ("MCP_GATEWAY_BACKENDS", fixture.as_str()),
        ("MCP_GATEWAY_EVENTS", "memory"),
    ];
    for document in documents("mcp-gateway") {
        // The first list may lack the backend of a busy machine.
        let server = Server::with_args("mcp-gateway", &[], &env).await;
        wait_until("the tools", async || {
            let listed = server.result("tools/list", json!({})).await.to_string();
            listed.contains("chora__")
        })
        .await;
        document.check_over_http(&server).await;
        let mut peer = StdioServer::of("mcp-gateway", &["--stdio"], &env);
        until_listed_over_stdio(&mut peer, "chora__").await;
        document.check_over_stdio(peer).await;
    }
}

#[tokio::test]
async fn status_and_events_have_the_fields_and_filters_of_the_seed() {
    let gateway = Gateway::with_fixture().await;
    let status = gateway.status().await;
    assert_eq!(status["gateway"]["name"], "mcp-gateway");
    assert!(status["gateway"]["version"].is_string());
    let config = &status["gateway"]["config"];
    assert_eq!(config["backend_timeout"], 30, "{config}");
    assert!(config["log_level"].is_string(), "{config}");
    assert!(config["debug"].is_boolean(), "{config}");
    let backend = &status["backends"]["b"];
    assert_has!(backend, {"status": "running", "namespace": "b"});
    assert!(backend["tool_count"].as_u64().unwrap() > 10);
    assert!(status["capabilities"]["tools"].as_u64().unwrap() > 10);

    let query = json!({"event_type": "gateway.started", "limit": 1});
    let started = gateway.own("get_events", query).await;
    let [started] = started.as_array().unwrap().as_slice() else {
        panic!("not one: {started}");
    };
    let timestamp = started["timestamp"].as_str().unwrap();
    assert_eq!(timestamp.len(), 32, "{timestamp}");
    assert!(timestamp.ends_with("+00:00"), "{timestamp}");
    assert!(uuid::Uuid::parse_str(started["trace_id"].as_str().unwrap()).is_ok());
    assert_has!(started, {"status": "success", "source": "mcp-gateway", "schema_version": "1.0"});

    gateway.tool("b:greet", json!({"name": "Ada"})).await;
    let call = gateway.ends(1).await.remove(0);
    assert_has!(call, {"tool_name": "b__greet", "backend": "b"});
    assert!(call["duration_ms"].as_f64().unwrap() > 0.0);

    for _ in 0..2 {
        gateway.tool("b__greet", json!({"name": "Ada"})).await;
    }
    gateway.ends(3).await;
    let events = async |query: Value| {
        let events = gateway.own("get_events", query).await;
        events.as_array().unwrap().len()
    };
    let (zulu, offset) = ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00+00:00");
    for since in ["1h", "24h", "7d", zulu, offset] {
        let query = json!({"event_type": "gateway.tool_call", "since": since});
        assert_eq!(events(query).await, 3, "{since}");
    }
    let later = json!({"since": "2999-01-01T00:00:00Z"});
    assert_eq!(events(later).await, 0);
    let query = json!({"event_type": "gateway.tool_call", "limit": 2});
    assert_eq!(events(query).await, 2);
    assert_eq!(events(json!({"status": "pending"})).await, 0);
    let soon = json!({"since": "soon"});
    assert_contains(&gateway.refusal("get_events", soon).await, "24h");
}
