//! Request smuggling: a request with an ambiguous end never contains a second one.

use std::time::Duration;

use super::{TestListener, ping};
use crate::harness::RawConnection;

/// The request that is hidden in the body of another, and the answer that it would get.
const HIDDEN_REQUEST: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
const HIDDEN_ANSWER: &str = r#"{"status":"ok"}"#;

#[tokio::test]
async fn hidden_request_is_never_answered() {
    let listener = TestListener::start(|limits| {
        limits.head_timeout = Duration::from_millis(300);
        limits.body_idle_timeout = Duration::from_millis(300);
    })
    .await;
    let hidden = HIDDEN_REQUEST.len();
    for fields in [
        // By Content-Length the hidden request is body, by Transfer-Encoding it is not; and the reverse.
        format!(
            "Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            hidden + 5
        ),
        format!(
            "Transfer-Encoding: chunked\r\nContent-Length: {}\r\n\r\n0\r\n\r\n",
            hidden + 5
        ),
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
        format!("Transfer-Encoding: chunked, identity\r\nContent-Length: {hidden}\r\n\r\n"),
        "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n".to_owned(),
        "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "Transfer-Encoding : chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n".to_owned(),
        // Two lengths, and invalid lengths.
        format!("Content-Length: 0\r\nContent-Length: {hidden}\r\n\r\n"),
        format!("Content-Length: {hidden}\r\nContent-Length: 0\r\n\r\n"),
        format!("Content-Length: 0, {hidden}\r\n\r\n"),
        "Content-Length: +0\r\n\r\n".to_owned(),
        "Content-Length: -1\r\n\r\n".to_owned(),
        "Content-Length: 0x0\r\n\r\n".to_owned(),
        "Content-Length : 0\r\n\r\n".to_owned(),
        // A folded line, and an invalid line break.
        "X: a\r\n Content-Length: 0\r\n\r\n{".to_owned(),
        "X: a\rContent-Length: 0\r\n\r\n".to_owned(),
        // Chunk sizes that only some parsers accept.
        "Transfer-Encoding: chunked\r\n\r\n0;a=\"\n\"\r\n\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\n\r\n0_0\r\n\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n".to_owned(),
    ] {
        for path in ["/mcp", "/healthz-not", "/mcp?x"] {
            let mut wire = RawConnection::connect(&listener.url).await;
            let head =
                format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{fields}{HIDDEN_REQUEST}");
            wire.push(head.as_bytes()).await;
            let answers = wire.rest().await;
            assert!(
                !answers.contains(HIDDEN_ANSWER),
                "{path} {fields:?}: {answers}"
            );
            let count = answers.matches("HTTP/1.1 ").count();
            assert!(count <= 1, "{path} {fields:?}: {answers}");
        }
    }
    listener.check_serves().await;
}

#[tokio::test]
async fn only_one_chunked_transfer_encoding_is_read() {
    let listener = TestListener::start(|_| ()).await;
    for (fields, status) in [
        ("Transfer-Encoding: chunked", 200),
        ("Transfer-Encoding: Chunked", 200),
        ("Transfer-Encoding: gzip, chunked", 400),
        ("Transfer-Encoding: chunked, chunked", 400),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            400,
        ),
        ("Content-Encoding: gzip\r\nTransfer-Encoding: chunked", 415),
        (
            "Content-Encoding: identity\r\nTransfer-Encoding: chunked",
            200,
        ),
    ] {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        let reply = RawConnection::round_trip(&listener.url, request).await;
        assert_eq!(reply.status, status, "{fields:?}: {reply:?}");
    }
}

#[tokio::test]
async fn foreign_origin_is_refused_before_the_transfer_encoding() {
    let listener = TestListener::start(|_| {}).await;
    let request = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\
                   Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
    let reply = RawConnection::round_trip(&listener.url, request).await;
    assert_eq!(reply.status, 403);
    assert!(!reply.headers.contains_key("access-control-allow-origin"));
}

/// A body that may still be on its way ends the connection, and the response says so: else a client sends
/// its next request into a connection that is closed.
#[tokio::test]
async fn early_refusals_announce_the_end_of_the_connection() {
    let listener = TestListener::start(|_| ()).await;
    for (fields, status) in [
        ("Host: evil.example\r\nContent-Length: 40", 403),
        ("Host: localhost\r\nContent-Length: 99999999", 413),
        (
            "Host: localhost\r\nContent-Type: text/plain\r\nContent-Length: 40",
            415,
        ),
        (
            "Host: localhost\r\nContent-Encoding: br\r\nContent-Length: 40",
            415,
        ),
        (
            "Host: localhost\r\nMcp-Session-Id: x\r\nContent-Length: 40",
            404,
        ),
    ] {
        let mut wire = RawConnection::connect(&listener.url).await;
        wire.send(format!("POST /mcp HTTP/1.1\r\n{fields}\r\n\r\n"))
            .await;
        let reply = wire.reply().await.unwrap();
        assert_eq!(reply.status, status, "{fields:?}");
        assert_eq!(reply.headers["connection"], "close", "{fields:?}");
        assert_eq!(wire.rest().await, "", "{fields:?}");
    }
}

#[tokio::test]
async fn pipelined_request_is_answered() {
    let listener = TestListener::start(|_| ()).await;
    let mut wire = RawConnection::connect(&listener.url).await;
    wire.send(format!("{}{HIDDEN_REQUEST}", ping(1))).await;
    assert_eq!(wire.reply().await.unwrap().json()["id"], 1);
    assert_eq!(wire.reply().await.unwrap().body, HIDDEN_ANSWER);
}

#[tokio::test]
async fn expect_continue_is_answered() {
    let listener = TestListener::start(|_| ()).await;
    let request = ping(1).replace("Content-Length", "Expect: 100-continue\r\nContent-Length");
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut wire = RawConnection::connect(&listener.url).await;
    wire.send(format!("{head}\r\n\r\n")).await;
    assert_eq!(wire.head().await.unwrap().0, 100);
    wire.send(body).await;
    assert_eq!(wire.reply().await.unwrap().status, 200);

    // No `100 Continue` for a body that would be refused.
    let reply = RawConnection::round_trip(&listener.url, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n").await;
    assert_eq!(reply.status, 413);
}
