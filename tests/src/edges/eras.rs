//! The era of a request, and what it says about caching.

use super::{FIXTURE, fixture};
use crate::harness::{Dialect, Server};

/// mcp-remote sends `Mcp-Method` with its `initialize`, other clients with every request.
#[tokio::test]
async fn mcp_method_header_does_not_make_a_request_modern() {
    let server = fixture().await;
    let initialize = r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}"#;
    for dialect in Dialect::ALL {
        for (method, members) in [("initialize", initialize), ("ping", ""), ("tools/list", "")] {
            if dialect == Dialect::Modern {
                continue;
            }
            let mut headers = dialect.headers();
            headers.push(("mcp-method", method));
            let reply = server
                .post_with(&headers, dialect.request("1", method, members))
                .await;
            assert_eq!(reply.status, 200, "{dialect:?} {method}: {reply:?}");
            assert_eq!(reply.json()["result"].get("resultType"), None, "{reply:?}");
        }
    }
}

#[tokio::test]
async fn mcp_method_header_leaves_a_session_in_its_revision() {
    let server = fixture().await;
    let body = Dialect::Unversioned.request("1", "initialize", r#""protocolVersion":"2025-03-26""#);
    let reply = server
        .post_with(&[("mcp-method", "initialize")], body)
        .await;
    assert_eq!(reply.json()["result"]["protocolVersion"], "2025-03-26");
    let session = reply.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let headers = [
        ("mcp-session-id", session.as_str()),
        ("mcp-method", "tools/list"),
    ];
    let reply = server
        .post_with(
            &headers,
            Dialect::Unversioned.request("2", "tools/list", ""),
        )
        .await;
    assert!(reply.json()["result"]["tools"].is_array(), "{reply:?}");
}

/// A list that can change is stale at once: a client that cached it would not see the change that it is
/// told of.
#[tokio::test]
async fn lists_that_can_change_are_not_cached() {
    let servers = [
        FIXTURE,
        "n8n-mcp-server",
        "docker-mcp-server",
        "mcp-gateway",
    ];
    for program in servers {
        let server = Server::start(program, &[]).await;
        for method in ["server/discover", "tools/list"] {
            let reply = server.request_as(Dialect::Modern, method, "", "").await;
            assert_has!(reply.json()["result"], {"ttlMs": 0, "cacheScope": "private"});
        }
    }
}
