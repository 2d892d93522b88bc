//! The era of a request, and cache hints.

use super::{FIXTURE, fixture};
use crate::harness::{Dialect, Server, initialize};

/// mcp-remote sends `Mcp-Method` with its `initialize`, other clients with every request.
#[tokio::test]
async fn mcp_method_header_does_not_make_a_request_modern() {
    let server = fixture().await;
    let members = r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}"#;
    let older = |dialect: &Dialect| *dialect != Dialect::Modern;
    for dialect in Dialect::ALL.into_iter().filter(older) {
        for (method, members) in [("initialize", members), ("ping", ""), ("tools/list", "")] {
            let mut headers = dialect.headers();
            headers.push(("mcp-method", method));
            let body = dialect.request("1", method, members);
            let reply = server.post_with(&headers, body).await;
            assert_eq!(reply.status, 200, "{dialect:?} {method}: {reply:?}");
            assert_eq!(reply.json()["result"].get("resultType"), None, "{reply:?}");
        }
    }
    // Nor does it change the revision of a session.
    let hello = initialize("2025-03-26").to_string();
    let reply = server
        .post_with(&[("mcp-method", "initialize")], hello)
        .await;
    assert_eq!(reply.json()["result"]["protocolVersion"], "2025-03-26");
    let session = reply.headers["mcp-session-id"].to_str().unwrap();
    let headers = [("mcp-session-id", session), ("mcp-method", "tools/list")];
    let body = Dialect::Unversioned.request("2", "tools/list", "");
    let reply = server.post_with(&headers, body).await;
    assert!(reply.json()["result"]["tools"].is_array(), "{reply:?}");
}

/// A client that cached a list would not see its changes.
#[tokio::test]
async fn lists_that_can_change_are_not_cached() {
    let products = ["n8n-mcp-server", "docker-mcp-server", "mcp-gateway"];
    for program in products.into_iter().chain([FIXTURE]) {
        let server = Server::start(program, &[]).await;
        for method in ["server/discover", "tools/list"] {
            let reply = server.request_as(Dialect::Modern, method, "", "").await;
            assert_has!(reply.json()["result"], {"ttlMs": 0, "cacheScope": "private"});
        }
    }
}
