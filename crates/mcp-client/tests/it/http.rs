//! Requests, streams and lists over HTTP.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use mcp_client::{Client, Options};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::client_info;
use crate::recorder::recorder;
use crate::server::*;

#[tokio::test]
async fn unversioned_request_needs_no_handshake_and_keeps_its_bytes() {
    let big = r#"{"n": 123456789012345678901234567890, "e":1e400,"s":"\u00e4"}"#;
    let mut server =
        Server::start(move |_| json(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{big}}}"#))).await;
    let endpoint = server.endpoint().bearer("s3cret").unwrap();
    let endpoint = endpoint.header("Host", "n8n.example").unwrap();
    let client = Client::http(endpoint).unwrap();
    let params = RawValue::from_string(big.to_owned()).unwrap();
    let answer = client.request("mcp.listTools", &params).await.unwrap();
    assert_eq!(answer.get(), big);

    let received = server.next().await;
    assert_eq!(
        received.body,
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"mcp.listTools","params":{big}}}"#)
    );
    for (name, value) in [
        ("authorization", Some("Bearer s3cret")),
        ("host", Some("n8n.example")),
        ("accept", Some("application/json, text/event-stream")),
        ("content-type", Some("application/json")),
        ("mcp-protocol-version", None),
        ("mcp-session-id", None),
    ] {
        assert_eq!(received.header(name), value, "{name}");
    }
}

#[tokio::test]
async fn handshake_opens_a_session_and_close_ends_it() {
    let mut server = Server::start(with_session(|request| match request.method {
        Method::DELETE => reply(200, "text/plain", ""),
        _ => result(request, "{}"),
    }))
    .await;
    let client = server.client();
    let info = client.initialize(&client_info()).await.unwrap();
    assert_eq!(info.protocol_version, "2025-06-18");
    assert_eq!(info.instructions.as_deref(), Some("be kind"));
    client.request("ping", &()).await.unwrap();
    client.close().await;

    let hello = server.next().await;
    assert_eq!(
        hello.json()["params"],
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})
    );
    assert_eq!(hello.header("mcp-session-id"), None);
    for expected in ["notifications/initialized", "ping", ""] {
        let received = server.next().await;
        assert_eq!(received.rpc(), expected);
        assert_eq!(received.header("mcp-session-id"), Some("s1"));
        assert_eq!(received.header("mcp-protocol-version"), Some("2025-06-18"));
        assert_eq!(received.method == Method::DELETE, expected.is_empty());
    }
}

#[tokio::test]
async fn stream_carries_progress_messages_and_the_response() {
    let mut server = Server::start(|request| match request.rpc().as_str() {
        "tools/call" => {
            let token = &request.json()["params"]["_meta"]["progressToken"];
            let progress = |n: u32| {
                event(json!({"jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": n, "total": 2, "message": "step"}}))
            };
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}});
            let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
            let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}});
            let done = answer(
                request,
                r#"{"content":[{"type":"text","text":"a"},{"type":"new","x":1},{"type":"text","text":"b"}],"structuredContent":{"n":1e400}}"#,
            );
            events([
                "id: 1\ndata:\n\n".to_owned(),
                progress(1) + &event(log),
                event(ping),
                event(ask) + &progress(2),
                ": still here\n\n".to_owned() + &event(done),
            ])
        }
        _ => accepted(),
    })
    .await;
    let (handler, mut seen) = recorder(Some(json!({})));
    let client = Client::builder().handler(handler).http(server.endpoint());
    let client = client.unwrap();
    let (reports, mut progress) = mpsc::channel(8);
    let options = Options::default().progress(reports);
    let result = client.call_tool_with("t", &json!({"a": 1}), options).await;
    let result = result.unwrap();
    assert_eq!(result.text(), "a\nb");
    assert_eq!(result.content[1].kind, "new");
    assert_eq!(result.content[1].raw.get(), r#"{"type":"new","x":1}"#);
    assert_eq!(result.structured_content.unwrap().get(), r#"{"n":1e400}"#);
    assert!(!result.is_error);

    for n in [1.0, 2.0] {
        let report = progress.recv().await.unwrap();
        assert_eq!((report.progress, report.total), (n, Some(2.0)));
        assert!(report.raw.get().contains("progressToken"));
    }
    assert!(progress.recv().await.is_none());
    let (kind, method, params) = seen.recv().await.unwrap();
    assert_eq!((kind, &*method), ("notification", "notifications/message"));
    assert_eq!(params, json!({"data": 1}));
    let (kind, method, _) = seen.recv().await.unwrap();
    assert_eq!((kind, &*method), ("request", "sampling/createMessage"));

    let pong = server.next_with(r#""id":"p""#).await.json();
    assert_eq!(pong, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    let reply = server.next_with(r#""id":1,"result""#).await.json();
    assert_eq!(reply["result"], json!({}));
}

#[tokio::test]
async fn requests_share_a_connection() {
    let count = AtomicUsize::new(0);
    let server = Server::start(
        move |request| match count.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => result(request, "1"),
            _ => events([event(answer(request, "1"))]),
        },
    )
    .await;
    let client = server.client();
    for _ in 0..20 {
        client.request("m", &()).await.unwrap();
        tokio::task::yield_now().await;
    }
    let connections = server.connections.load(Ordering::Relaxed);
    assert!(connections <= 3, "{connections} connections");
}

#[tokio::test]
async fn all_pages_of_the_tools_are_read() {
    let server = Server::start(|request| {
        let page = match request.json()["params"]["cursor"].as_str() {
            None => r#"{"tools":[{"name":"a","description":"A","inputSchema":{"type":"object"}}],"nextCursor":"2"}"#,
            Some("2") => r#"{"tools":[],"nextCursor":"3"}"#,
            _ => r#"{"tools":[{"name":"b","inputSchema":{},"new":1e400}]}"#,
        };
        result(request, page)
    })
    .await;
    let tools = server.client().list_tools().await.unwrap();
    assert_eq!(tools.len(), 2);
    assert_eq!(tools[0].description.as_deref(), Some("A"));
    let schema = tools[0].input_schema.as_ref().unwrap().get();
    assert_eq!(schema, r#"{"type":"object"}"#);
    let raw = tools[1].raw.get();
    assert_eq!(raw, r#"{"name":"b","inputSchema":{},"new":1e400}"#);
}

/// The first attempts to resume it fail, in several ways.
#[tokio::test]
async fn stream_that_ends_early_is_resumed() {
    let attempts = AtomicUsize::new(0);
    let mut server = Server::start(move |request| match request.method {
        Method::GET => match attempts.fetch_add(1, Ordering::Relaxed) {
            0 => reply(503, "text/plain", ""),
            1 => events([String::new()]),
            _ => {
                let done = r#"{"jsonrpc":"2.0","id":1,"result":"late"}"#;
                events([event(done)])
            }
        },
        _ => events(["retry: 60\nid: e-7\ndata:\n\ndata: half".to_owned()]),
    })
    .await;
    let answer = server.client().request("m", &()).await.unwrap();
    assert_eq!(answer.get(), r#""late""#);
    server.next().await;
    for _ in 0..3 {
        let resumed = server.next().await;
        assert_eq!(resumed.method, Method::GET);
        assert_eq!(resumed.header("last-event-id"), Some("e-7"));
        assert_eq!(resumed.header("accept"), Some("text/event-stream"));
    }
}

#[tokio::test]
async fn stream_that_cannot_be_resumed_ends_the_request() {
    for (status, attempts) in [(503, 5), (405, 1)] {
        let mut server = Server::start(move |request| match request.method {
            Method::GET => reply(status, "text/plain", ""),
            _ => events(["retry: 0\nid: e-7\ndata:\n\n".to_owned()]),
        })
        .await;
        let error = server.client().request("m", &()).await.unwrap_err();
        assert_error!(error, mcp_client::Error::Closed { .. });
        for _ in 0..=attempts {
            server.next().await;
        }
        assert!(server.nothing_received(), "{status}");
    }
}
