//! HTTP+SSE, the transport of 2024-11-05, with the guards of `/mcp`.

use mcp_client::{ClientInfo, Endpoint, EraChoice, Revision};
use serde_json::{Value, json};

use crate::auth::file;
use crate::harness::{
    Dialect, RawConnection, Reply, Server, assert_contains, client_builder, eventually, recorder,
    wait_until,
};

/// Opens a stream. Returns its status and, from its first event, the address for messages.
async fn open(server: &Server, fields: &str) -> (RawConnection, u16, String) {
    let request = format!("GET /sse HTTP/1.1\r\n{fields}\r\n");
    let mut wire = RawConnection::sending(&server.url, request).await;
    let (status, _) = wire.head().await.unwrap();
    let mut address = String::new();
    if status == 200 {
        let event = String::from_utf8(wire.chunk().await.unwrap()).unwrap();
        let data = event.strip_prefix("event: endpoint\ndata: ").unwrap();
        address = data.trim_end().to_owned();
    }
    (wire, status, address)
}

async fn send(server: &Server, address: &str, fields: &str, body: &str) -> Reply {
    let length = body.len();
    let head = format!("POST {address} HTTP/1.1\r\n{fields}Content-Length: {length}\r\n");
    RawConnection::round_trip(&server.url, format!("{head}\r\n{body}")).await
}

/// The next message on a stream, which comes alone, but for the comments of an idle stream.
async fn message(wire: &mut RawConnection) -> Value {
    loop {
        let chunk = String::from_utf8(wire.chunk().await.unwrap()).unwrap();
        let event = chunk.replace(":\n\n", "");
        if !event.is_empty() {
            let data = event.strip_prefix("event: message\ndata: ").unwrap();
            return serde_json::from_str(data).unwrap();
        }
    }
}

#[tokio::test]
async fn sse_is_off_by_default() {
    let server = Server::start("mcp-conformance", &[]).await;
    let local = "Host: localhost\r\n";
    assert_eq!(open(&server, local).await.1, 404);
    let ping = Dialect::Unversioned.request("1", "ping", "");
    let reply = send(&server, "/messages?sessionId=1", local, &ping).await;
    assert_eq!(reply.status, 404);
}

#[tokio::test]
async fn guards_hold_for_sse() {
    let tokens = file("alice a-s3cret-of-16-chars\nbob b-s3cret-of-16-chars\n");
    let tokens_file = tokens.to_str().unwrap();
    let args = ["--sse", "--stream-limit", "2", "--token-file", tokens_file];
    let server = Server::with_args("mcp-conformance", &args, &[]).await;
    let alice = "Host: localhost\r\nAuthorization: Bearer a-s3cret-of-16-chars\r\n";
    let bob = "Host: localhost\r\nAuthorization: Bearer b-s3cret-of-16-chars\r\n";
    let foreign_host = "Host: evil.com\r\nAuthorization: Bearer a-s3cret-of-16-chars\r\n";
    let foreign_origin = &format!("{alice}Origin: http://evil.com\r\n");
    let (mut wire, _, address) = open(&server, alice).await;
    let ping = Dialect::Unversioned.request("1", "ping", "");
    for (fields, opened, sent) in [
        ("Host: localhost\r\n", 401, 401),
        (foreign_host, 403, 403),
        (foreign_origin, 403, 403),
        (bob, 200, 404),
        (alice, 200, 202),
    ] {
        let (_stream, status, _) = open(&server, fields).await;
        assert_eq!(status, opened, "{fields}");
        let reply = send(&server, &address, fields, &ping).await;
        assert_eq!(reply.status, sent, "{fields}");
        assert_eq!(reply.body.is_empty(), sent == 202, "{fields}");
    }
    assert_eq!(message(&mut wire).await["result"], json!({}));
    // The server notices the end of a stream some time later.
    let open_once_there_is_room = async || {
        let room = eventually("room for a stream", async || {
            let (wire, status, _) = open(&server, alice).await;
            (status == 200).then_some(wire)
        });
        room.await
    };
    let second = open_once_there_is_room().await;
    assert_eq!(open(&server, alice).await.1, 429);
    drop(second);
    // A session ends with its stream.
    drop(wire);
    wait_until("the end of the session", async || {
        send(&server, &address, alice, &ping).await.status == 404
    })
    .await;
    for query in ["", "?sessionId=", "?x=1&sessionId=0"] {
        let address = format!("/messages{query}");
        assert_eq!(send(&server, &address, alice, &ping).await.status, 404);
    }
    // A removed token ends its streams.
    let mut stream = open_once_there_is_room().await;
    std::fs::write(&tokens, "bob b-s3cret-of-16-chars\n").unwrap();
    while stream.chunk().await.is_some() {}
}

/// Answers, questions and notifications come on the stream.
#[tokio::test]
async fn all_messages_come_on_the_stream() {
    let args = ["--sse", "--call-timeout", "600"];
    let server = Server::with_args("mcp-conformance", &args, &[]).await;
    let endpoint = Endpoint::new(&server.url.replace("/mcp", "/sse")).unwrap();
    let (handler, mut seen) = recorder();
    let era = EraChoice::Revision(Revision::V2024_11_05);
    let builder = client_builder().era(era).handler(handler);
    let client = builder.sse(endpoint).unwrap();
    let capabilities = json!({"elicitation": {}});
    let info = ClientInfo::new("tests", "1").with_capabilities(capabilities);
    client.connect(&info).await.unwrap();
    let asking = json!({"message": "Who?"});
    let answer = client.call_tool("test_elicitation", &asking).await.unwrap();
    assert_contains(&answer.text(), "accept");
    assert_eq!(seen.recv().await.unwrap().0, "elicitation/create");
    let watched = json!({"uri": "test://watched-resource"});
    let subscribed = client.request("resources/subscribe", &watched).await;
    assert_eq!(subscribed.unwrap().get(), "{}");
    let trigger = "test_trigger_resource_change";
    client.call_tool(trigger, &json!({})).await.unwrap();
    let (method, _) = seen.recv().await.unwrap();
    assert_eq!(method, "notifications/resources/updated");
    // The end of the stream cancels its calls.
    let running = async || server.call("count_slow", json!({})).await["running"].as_u64();
    let slow = json!({"step": 600, "steps": 1000});
    let ended = async {
        wait_until("the call", async || running().await == Some(1)).await;
        client.close().await;
    };
    let (cut_off, ()) = tokio::join!(client.call_tool("slow", &slow), ended);
    assert!(cut_off.is_err());
    wait_until("its end", async || running().await == Some(0)).await;
}

/// Its streams are requests without an end, which this transport has no place for.
#[tokio::test]
async fn modern_era_is_refused_over_sse() {
    let server = Server::with_args("mcp-conformance", &["--sse"], &[]).await;
    let local = "Host: localhost\r\n";
    let (mut wire, _, address) = open(&server, local).await;
    let listen = r#""notifications":{"toolsListChanged":true}"#;
    for (method, params) in [("subscriptions/listen", listen), ("server/discover", "")] {
        let request = Dialect::Modern.request("1", method, params);
        assert_eq!(send(&server, &address, local, &request).await.status, 202);
        let error = message(&mut wire).await["error"].take();
        assert_eq!(error["code"], -32022, "{error}");
        for part in ["initialize", "/mcp"] {
            assert_contains(&error["message"], part);
        }
        let supported = error["data"]["supported"].as_array().unwrap();
        assert!(supported.contains(&json!("2024-11-05")), "{error}");
        assert!(!supported.contains(&json!("2026-07-28")), "{error}");
    }
}
