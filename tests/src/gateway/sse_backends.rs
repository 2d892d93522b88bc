//! Backends that speak HTTP+SSE, the transport of 2024-11-05.

use mcp_client::EraChoice;
use serde_json::json;

use super::env::{Gateway, text};
use super::input_requests::call;
use crate::harness::Server;

#[tokio::test]
async fn sse_backend_works_by_setting_and_by_detection() {
    let server = Server::with_args("mcp-conformance", &["--sse"], &[]).await;
    let url = format!("url = {:?}", server.url.replace("/mcp", "/sse"));
    for lines in [
        url.clone(),
        format!("{url}\ntransport = \"sse\""),
        format!("{url}\ntype = \"sse\"\nprotocol = \"2024-11-05\""),
    ] {
        let gateway = Gateway::with(&lines).await;
        gateway.assert_answers("b").await;
        let protocol = gateway.backend("b").await["protocol"].clone();
        let is_held = lines.contains("protocol");
        let expected = if is_held { "2024-11-05" } else { "2025-11-25" };
        assert_eq!(protocol, expected, "{lines}");
        for era in [EraChoice::Newest, EraChoice::Legacy] {
            let client = gateway.client(era, None).await;
            let message = json!({"message": "Who?"});
            let (result, asked) = Box::pin(call(&client, "b__test_elicitation", message)).await;
            assert_eq!(asked, ["elicitation/create"], "{era:?} {lines}");
            assert!(text(&result).contains("accept"), "{result}");
        }
    }
}

/// Unlike one over Streamable HTTP, it is seen to end.
#[tokio::test]
async fn ended_sse_backend_is_noticed() {
    let server = Server::with_args("mcp-conformance", &["--sse"], &[]).await;
    let url = server.url.replace("/mcp", "/sse");
    let gateway = Gateway::with(&format!("url = {url:?}\ntransport = \"sse\"")).await;
    server.kill().await;
    gateway.until("b", "failed").await;
}
