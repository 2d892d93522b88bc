//! CORS: only pages of admitted origins can call the server and read its responses.

use crate::harness::{Dialect, Server, assert_contains};

const PAGE: &str = "http://localhost:5173";

#[tokio::test]
async fn page_of_an_admitted_origin_can_call_and_read() {
    let server = Server::with_args("mcp-conformance", &["--token", "t0ken-of-16-chars"], &[]).await;
    let requested = "content-type, authorization, mcp-protocol-version, mcp-param-region";
    let asks = |method| {
        [
            ("origin", PAGE),
            ("access-control-request-method", method),
            ("access-control-request-headers", requested),
        ]
    };
    // A preflight request has no token.
    for (method, path) in [
        ("POST", "/mcp"),
        ("GET", "/mcp"),
        ("DELETE", "/mcp"),
        ("GET", "/metrics"),
        ("GET", "/healthz"),
    ] {
        let reply = server.request("OPTIONS", path, &asks(method)).await;
        assert_eq!((reply.status, reply.body.as_str()), (204, ""), "{method}");
        assert_eq!(reply.headers["access-control-allow-origin"], PAGE);
        assert_eq!(reply.headers["access-control-allow-headers"], requested);
        let methods = &reply.headers["access-control-allow-methods"];
        assert_contains(methods.to_str().unwrap(), method);
        assert_eq!(reply.headers["vary"], "Origin");
    }
    let token = ("authorization", "Bearer t0ken-of-16-chars");
    let initialize = r#""protocolVersion":"2025-11-25""#;
    let body = Dialect::Unversioned.request("1", "initialize", initialize);
    for (headers, status) in [(vec![token], 200), (vec![], 401)] {
        let headers = [headers, vec![("origin", PAGE)]].concat();
        let reply = server.post_with(&headers, body.clone()).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.headers["access-control-allow-origin"], PAGE);
        let exposed = &reply.headers["access-control-expose-headers"];
        assert_contains(exposed.to_str().unwrap(), "Mcp-Session-Id");
    }
}

/// Every page of the web could read a service that needs no token.
#[tokio::test]
async fn all_hosts_without_a_token_means_no_cors() {
    let all = ["--allowed-hosts", "*", "--token", "t0ken-of-16-chars"];
    for (args, is_readable) in [(&all[..2], false), (&all, true)] {
        let server = Server::with_args("mcp-conformance", args, &[]).await;
        let body = Dialect::Unversioned.request("1", "ping", "");
        let headers = [
            ("origin", "http://any.example"),
            ("authorization", "Bearer t0ken-of-16-chars"),
        ];
        let reply = server.post_with(&headers, body).await;
        assert_eq!(reply.status, 200);
        let has_cors = reply.headers.contains_key("access-control-allow-origin");
        assert_eq!(has_cors, is_readable, "{args:?}");
    }
}

#[tokio::test]
async fn foreign_origins_and_other_clients_get_no_cors_headers() {
    let server = Server::with_args("mcp-conformance", &[], &[]).await;
    let body = Dialect::Unversioned.request("1", "ping", "");
    let names = [
        "access-control-allow-origin",
        "access-control-expose-headers",
        "vary",
    ];
    for origin in "http://evil.example null http://localhost.evil.example".split(' ') {
        let preflight = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
        ];
        let preflight = server.request("OPTIONS", "/mcp", &preflight).await;
        let call = server.post_with(&[("origin", origin)], body.clone()).await;
        for reply in [preflight, call] {
            assert_eq!(reply.status, 403, "{origin}");
            assert!(!reply.headers.contains_key(names[0]));
        }
    }
    let reply = server.post(body).await;
    assert_eq!(reply.status, 200);
    for name in names {
        assert!(!reply.headers.contains_key(name), "{name}");
    }
}
