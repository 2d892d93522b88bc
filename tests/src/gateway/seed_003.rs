//! The session of seed 003, over stdio and over HTTP.

use serde_json::{Value, json};

use super::lab::{Gateway, failure};
use crate::documents::documents;
use crate::harness::binary;

fn chora() -> String {
    format!("chora={} --stdio", binary("mcp-conformance").display())
}

#[tokio::test]
async fn the_session_over_http() {
    let chora = chora();
    for document in documents("mcp-gateway") {
        document
            .over_http(&[
                ("MCP_GATEWAY_BACKENDS", &chora),
                ("MCP_GATEWAY_EVENTS", "memory"),
            ])
            .await;
    }
}

#[tokio::test]
async fn the_session_over_stdio() {
    let chora = chora();
    for document in documents("mcp-gateway") {
        document
            .over_stdio(&[
                ("MCP_GATEWAY_BACKENDS", &chora),
                ("MCP_GATEWAY_EVENTS", "memory"),
            ])
            .await;
    }
}

#[tokio::test]
async fn what_the_texts_of_its_own_tools_say() {
    let gateway = Gateway::before_fixture().await;
    let status = gateway.own("gateway_status", json!({})).await;
    assert_eq!(status["gateway"]["name"], "mcp-gateway");
    assert!(status["gateway"]["version"].is_string());
    let config = &status["gateway"]["config"];
    assert_eq!(config["backend_timeout"], 30, "{config}");
    assert!(
        config["log_level"].is_string() && config["debug"].is_boolean(),
        "{config}"
    );
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
    assert!(
        timestamp.ends_with("+00:00") && timestamp.len() == 32,
        "{timestamp}"
    );
    assert!(uuid::Uuid::parse_str(started["trace_id"].as_str().unwrap()).is_ok());
    assert_has!(started, {"status": "success", "source": "mcp-gateway", "schema_version": "1.0"});

    gateway.tool("b:greet", json!({"name": "Ada"})).await;
    let call = gateway.ends(1).await.remove(0);
    assert_has!(call, {"tool_name": "b__greet", "backend": "b"});
    assert!(call["duration_ms"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn since_and_limit_as_the_seed_has_them() {
    let gateway = Gateway::before_fixture().await;
    for _ in 0..3 {
        gateway.tool("b__greet", json!({"name": "Ada"})).await;
    }
    gateway.ends(3).await;
    let events = async |query: Value| {
        let events = gateway.own("get_events", query).await;
        events.as_array().unwrap().len()
    };
    for since in [
        "1h",
        "24h",
        "7d",
        "2020-01-01T00:00:00Z",
        "2020-01-01T00:00:00+00:00",
    ] {
        let query = json!({"event_type": "gateway.tool_call", "since": since});
        assert_eq!(events(query).await, 3, "{since}");
    }
    let later = json!({"since": "2999-01-01T00:00:00Z"});
    assert_eq!(events(later).await, 0);
    let query = json!({"event_type": "gateway.tool_call", "limit": 2});
    assert_eq!(events(query).await, 2);
    assert_eq!(events(json!({"status": "pending"})).await, 0);
    let wrong = gateway.answer("get_events", json!({"since": "soon"})).await;
    assert!(failure(&wrong).contains("24h"), "{wrong}");
}
