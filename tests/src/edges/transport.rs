//! What is decided before the message is looked at: origins, methods, `Accept`, headers.

use serde_json::{Value, json};

use super::{FIXTURE, fixture, refused};
use crate::harness::{Dialect, RawConnection, Server, assert_starts_with, post};

#[tokio::test]
async fn a_foreign_origin_is_refused_behind_a_good_host() {
    let server = fixture().await;
    for dialect in Dialect::ALL {
        for origin in [
            "http://evil.example",
            "https://localhost.evil.example",
            "null",
        ] {
            let mut headers = dialect.headers();
            headers.push(("origin", origin));
            let body = dialect.request("1", "tools/list", "");
            let reply = server.post_with(&headers, body).await;
            let error = refused(&reply, 403, 40300, Value::Null);
            assert_eq!(error["data"]["kind"], "forbidden");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("--allowed-hosts"), "{message}");
        }
    }
}

#[tokio::test]
async fn an_origin_of_this_machine_is_welcome_on_any_port() {
    let server = fixture().await;
    for origin in [
        "http://localhost:6274",
        "https://127.0.0.1",
        "http://[::1]:80",
    ] {
        let body = Dialect::Unversioned.request("1", "ping", "");
        let reply = server.post_with(&[("origin", origin)], body).await;
        assert_eq!(reply.status, 200, "{origin}: {reply:?}");
    }
}

#[tokio::test]
async fn whoever_reads_json_gets_json() {
    let server = fixture().await;
    for accept in [
        "*/*",
        "application/json",
        "application/json, text/event-stream",
        "text/event-stream, application/json;q=0.9",
        "text/html",
    ] {
        for dialect in Dialect::ALL {
            let mut headers = dialect.headers();
            headers.extend([("accept", accept), ("mcp-method", "tools/list")]);
            if dialect != Dialect::Modern {
                headers.pop();
            }
            let body = dialect.request("1", "tools/list", "");
            let reply = server.post_with(&headers, body).await;
            assert_eq!(reply.status, 200, "{accept} {dialect:?}");
            assert_eq!(reply.headers["content-type"], "application/json");
            assert!(reply.json()["result"]["tools"].is_array(), "{reply:?}");
        }
    }
}

#[tokio::test]
async fn whoever_does_not_say_gets_json() {
    let server = fixture().await;
    let reply = RawConnection::round_trip(
        &server.url,
        post(&[], &Dialect::Unversioned.request("1", "tools/list", "")),
    )
    .await;
    assert_eq!(reply.status, 200);
    assert!(reply.json()["result"]["tools"].is_array());
}

#[tokio::test]
async fn whoever_reads_events_only_gets_events_and_keeps_the_status() {
    let server = fixture().await;
    let accept = ("accept", "text/event-stream");
    let body = Dialect::Unversioned.request("1", "ping", "");
    let reply = server.post_with(&[accept], body).await;
    assert_eq!(reply.headers["content-type"], "text/event-stream");
    assert_eq!(
        reply.body,
        "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"
    );

    let notification = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let reply = server.post_with(&[accept], notification).await;
    assert_eq!((reply.status, reply.body.as_str()), (202, ""));

    let mut headers = Dialect::Modern.headers();
    headers.extend([accept, ("mcp-method", "ping")]);
    let body = Dialect::Modern.request("1", "ping", "");
    let reply = server.post_with(&headers, body).await;
    refused(&reply, 404, -32601, json!(1));
}

#[tokio::test]
async fn only_post_is_answered_and_the_rest_is_told_how() {
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
async fn nobody_needs_a_session() {
    let server = fixture().await;
    for dialect in Dialect::ALL {
        let reply = server.request_as(dialect, "tools/list", "", "").await;
        assert_eq!(reply.status, 200, "{dialect:?}");
        assert!(reply.json()["result"]["tools"].is_array(), "{reply:?}");
        let reply = server.request_as(dialect, "mcp.listTools", "", "").await;
        if dialect == Dialect::Modern {
            refused(&reply, 404, -32601, json!(1));
        } else {
            assert!(reply.json()["result"].is_array(), "{dialect:?} {reply:?}");
        }
    }
}

#[tokio::test]
async fn an_unknown_version_is_told_the_known_ones() {
    let server = fixture().await;
    for version in ["1999-01-01", "2025-11-25x", "latest", "", "2099-12-31"] {
        for method in ["tools/list", "initialize"] {
            let body = Dialect::Unversioned.request("1", method, "");
            let reply = server
                .post_with(&[("mcp-protocol-version", version)], body)
                .await;
            let error = refused(&reply, 400, -32022, json!(1));
            assert_eq!(error["data"]["requested"], version);
            let supported = [
                "2026-07-28",
                "2025-11-25",
                "2025-06-18",
                "2025-03-26",
                "2024-11-05",
            ];
            assert_eq!(error["data"]["supported"], json!(supported));
        }
    }
}

#[tokio::test]
async fn a_version_that_is_no_text_is_unknown_too() {
    let server = fixture().await;
    let mut wire = RawConnection::connect(&server.url).await;
    let body = Dialect::Unversioned.request("1", "tools/list", "");
    let text = post(&["MCP-Protocol-Version: VERSION"], &body);
    let bytes: Vec<u8> = text
        .replace("VERSION", "\u{1}")
        .bytes()
        .map(|byte| if byte == 1 { 0xff } else { byte })
        .collect();
    wire.send(bytes).await;
    refused(&wire.reply().await.unwrap(), 400, -32022, json!(1));
}

#[tokio::test]
async fn modern_headers_must_say_what_the_body_says() {
    let server = fixture().await;
    let version = ("mcp-protocol-version", "2026-07-28");
    let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "echo"));
    let members = r#""name":"echo","arguments":{"value":1}"#;
    let body = Dialect::Modern.request("1", "tools/call", members);
    let reply = server
        .post_with(&[version, method, name], body.clone())
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let coded = ("mcp-name", "=?base64?ZWNobw==?=");
    let reply = server
        .post_with(&[version, method, coded], body.clone())
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");

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
}

#[tokio::test]
async fn a_header_that_stands_twice_decides_nothing() {
    let server = fixture().await;
    let members = r#""name":"echo","arguments":{"value":1}"#;
    let body = Dialect::Modern.request("1", "tools/call", members);
    let good = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "echo"),
    ];
    for (name, second) in [
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-method", "tools/list"),
        ("mcp-name", "fail"),
    ] {
        let headers = [good.as_slice(), &[(name, second)]].concat();
        let reply = server.post_with(&headers, body.clone()).await;
        refused(&reply, 400, -32020, Value::Null);
    }
    // Some clients say everything twice; that is not ambiguous.
    let reply = server.post_with(&[good, good].concat(), body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[tokio::test]
async fn other_media_types_are_refused_and_a_missing_one_is_not() {
    let server = fixture().await;
    let body = Dialect::Unversioned.request("1", "ping", "");
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
    ] {
        let reply = server
            .post_with(&[("content-type", kind)], body.clone())
            .await;
        assert_eq!(reply.status, 415, "{kind}");
        assert!(reply.body.contains("application/json"), "{reply:?}");
    }
    for kind in ["application/json; charset=utf-8", "Application/JSON"] {
        let reply = server
            .post_with(&[("content-type", kind)], body.clone())
            .await;
        assert_eq!(reply.status, 200, "{kind}");
    }
    let reply = RawConnection::round_trip(&server.url, post(&[], &body)).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn a_product_with_its_service_down_has_the_same_edges() {
    let nowhere = [("DOCKER_HOST", "tcp://127.0.0.1:9")];
    let server = Server::start("docker-mcp-server", &nowhere).await;
    for dialect in Dialect::ALL {
        let reply = server.post_as(dialect, "{").await;
        refused(&reply, dialect.malformed_status(), -32700, Value::Null);
        let reply = server.call_as(dialect, "no_such_tool", "{}").await;
        refused(&reply, 200, -32602, json!(1));
        let reply = server.call_as(dialect, "list_containers", "{}").await;
        assert_eq!(reply.json()["result"]["isError"], true, "{reply:?}");
    }
}
