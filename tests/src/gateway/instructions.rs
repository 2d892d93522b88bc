//! The instructions of the gateway and of its backends.

use serde_json::{Value, json};

use super::env::Gateway;
use crate::harness::{Dialect, FakeService, Response, assert_contains, assert_lacks};

#[tokio::test]
async fn instructions_of_backends_are_merged() {
    let backend = FakeService::start(|request| {
        let request: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let id = &request["id"];
        let long = format!("Use\u{202e} it\nwell. {}END", "x".repeat(5_000));
        let result = match request["method"].as_str() {
            Some("initialize") => {
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "x", "version": "1"}, "instructions": long})
            }
            Some("tools/list") => json!({"tools": []}),
            Some("server/discover") => {
                let error = json!({"code": -32601, "message": "?"});
                return Response::json(200, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            _ => return Response::Http(405, "text/plain", "".into()),
        };
        Response::json(200, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
    })
    .await;
    let gateway = Gateway::with(&format!("url = {:?}", backend.url)).await;
    let hello = r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}"#;
    for (dialect, method, params) in [
        (Dialect::Unversioned, "initialize", hello),
        (Dialect::Modern, "server/discover", ""),
    ] {
        let answer = gateway.request_as(dialect, method, "", params).await.json();
        let instructions = &answer["result"]["instructions"];
        assert_contains(instructions, "gateway_status says why.");
        assert_contains(instructions, "b: Use it");
        assert_lacks(instructions, "END");
        assert_lacks(instructions, "\u{202e}");
    }
}
