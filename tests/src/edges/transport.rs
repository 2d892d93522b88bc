//! Checks before the message is parsed: origins, HTTP methods, `Accept`, headers.

use serde_json::{Value, json};

use super::{FIXTURE, accepted, fixture, refused};
use crate::harness::{Dialect, RawConnection, assert_starts_with, initialize, post};

#[tokio::test]
async fn client_that_accepts_json_gets_json() {
    let server = fixture().await;
    for accept in [
        "*/*",
        "application/json",
        "application/json, text/event-stream",
        "text/event-stream, application/json;q=0.9",
        "text/html",
    ] {
        for dialect in Dialect::ALL {
            let accept = [("accept", accept)];
            let reply = server.request_with(&accept, dialect, "tools/list", "", "");
            let reply = reply.await;
            assert_eq!(reply.status, 200, "{accept:?} {dialect:?}");
            assert_eq!(reply.headers["content-type"], "application/json");
            assert!(reply.json()["result"]["tools"].is_array(), "{reply:?}");
        }
    }
}

#[tokio::test]
async fn client_that_accepts_only_events_gets_events() {
    let server = fixture().await;
    let accept = ("accept", "text/event-stream");
    let body = Dialect::Unversioned.request("1", "ping", "");
    let reply = server.post_with(&[accept], body).await;
    assert_eq!(reply.headers["content-type"], "text/event-stream");
    let data = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    assert_eq!(reply.body, format!("event: message\ndata: {data}\n\n"));

    let notification = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    accepted(&server.post_with(&[accept], notification).await);

    let mut headers = Dialect::Modern.headers();
    headers.extend([accept, ("mcp-method", "ping")]);
    let body = Dialect::Modern.request("1", "ping", "");
    let reply = server.post_with(&headers, body).await;
    refused(&reply, 404, -32601, json!(1));
}

#[tokio::test]
async fn other_http_methods_get_405_with_an_example() {
    let server = fixture().await;
    for method in ["GET", "DELETE", "PUT", "OPTIONS"] {
        for dialect in Dialect::ALL {
            let reply = server.request(method, "/mcp", &dialect.headers()).await;
            assert_eq!(reply.status, 405, "{method} {dialect:?}");
            assert_eq!(reply.headers["allow"], "POST");
            let body = reply.json();
            assert_eq!(body["name"], FIXTURE);
            let example = body["example"].as_str().unwrap();
            assert_starts_with(&example, &format!("curl {} ", server.url));
        }
    }
}

#[tokio::test]
async fn error_for_an_unknown_version_lists_the_supported_ones() {
    let server = fixture().await;
    let supported = "2026-07-28 2025-11-25 2025-06-18 2025-03-26 2024-11-05";
    let supported: Vec<&str> = supported.split(' ').collect();
    for version in ["1999-01-01", "2025-11-25x", "latest", "", "2099-12-31"] {
        for method in ["tools/list", "initialize"] {
            let body = Dialect::Unversioned.request("1", method, "");
            let header = ("mcp-protocol-version", version);
            let reply = server.post_with(&[header], body).await;
            let error = refused(&reply, 400, -32022, json!(1));
            assert_eq!(error["data"]["requested"], version);
            assert_eq!(error["data"]["supported"], json!(supported));
        }
    }
    let body = Dialect::Unversioned.request("1", "tools/list", "");
    let mut request = post(&["MCP-Protocol-Version: \u{1}"], &body).into_bytes();
    let at = request.iter().position(|byte| *byte == 1);
    request[at.unwrap()] = 0xff;
    let reply = RawConnection::round_trip(&server.url, request).await;
    refused(&reply, 400, -32022, json!(1));
}

#[tokio::test]
async fn modern_headers_must_match_the_body() {
    let server = fixture().await;
    let version = ("mcp-protocol-version", "2026-07-28");
    let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "echo"));
    let members = r#""name":"echo","arguments":{"value":1}"#;
    let body = Dialect::Modern.request("1", "tools/call", members);
    for name in [name, ("mcp-name", "=?base64?ZWNobw==?=")] {
        let headers = [version, method, name];
        let reply = server.post_with(&headers, body.clone()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    let wrong: [&[(&str, &str)]; 9] = [
        &[method, name],
        &[("mcp-protocol-version", "2025-11-25"), method, name],
        &[version, name],
        &[version, method],
        &[version, ("mcp-method", "Tools/call"), name],
        &[version, ("mcp-method", "tools/list"), name],
        &[version, method, ("mcp-name", "slow")],
        &[version, method, ("mcp-name", "=?base64?%%?=")],
        &[version, method, ("mcp-name", "=?base64?c2xvdw==?=")],
    ];
    for headers in wrong {
        let reply = server.post_with(headers, body.clone()).await;
        refused(&reply, 400, -32020, json!(1));
    }

    // Names that no header can hold as they are, and one that looks like an encoded one. No tool has these names, so a call
    // that passes the check fails later.
    for (name, header, code) in [
        ("世界", "=?base64?5LiW55WM?=", -32602),
        (" a", "=?base64?IGE=?=", -32602),
        (" a", " a", -32020),
        ("a", " a\t", -32602),
        ("a\tb", "=?base64?YQli?=", -32602),
        ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?=", -32602),
        ("=?base64?YQ==?=", "=?base64?YQ==?=", -32020),
        ("=?base64?YQ==?=", "a", -32020),
        ("a", "=?base64?IGE=?=", -32020),
    ] {
        let members = format!(r#""name":{},"arguments":{{}}"#, json!(name));
        let body = Dialect::Modern.request("1", "tools/call", &members);
        let headers = [version, method, ("mcp-name", header)];
        let reply = server.post_with(&headers, body).await;
        let status = if code == -32602 { 200 } else { 400 };
        refused(&reply, status, code, json!(1));
    }

    // Headers that contradict each other are refused without the body.
    let good = [version, method, name];
    for (name, second) in [
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-method", "tools/list"),
        ("mcp-name", "fail"),
    ] {
        let headers = [good.as_slice(), &[(name, second)]].concat();
        let reply = server.post_with(&headers, body.clone()).await;
        refused(&reply, 400, -32020, Value::Null);
    }
    // Some clients send every header twice; equal ones are not ambiguous.
    let reply = server.post_with(&[good, good].concat(), body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[tokio::test]
async fn content_type_must_be_json_or_absent() {
    let server = fixture().await;
    let body = Dialect::Unversioned.request("1", "ping", "");
    for (kind, status) in [
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/jsonp", 415),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
    ] {
        let header = ("content-type", kind);
        let reply = server.post_with(&[header], body.clone()).await;
        assert_eq!(reply.status, status, "{kind}");
        let names_json = reply.body.contains("application/json");
        assert!(names_json || status == 200, "{reply:?}");
    }
    let reply = RawConnection::round_trip(&server.url, post(&[], &body)).await;
    assert_eq!(reply.status, 200);
}

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
