//! Request smuggling: a request with an ambiguous end never contains a second one.

use std::time::Duration;

use super::{HEALTH, TestListener, ping};
use crate::harness::RawConnection;

/// The request that is hidden in the body of another, and the answer that it would get.
const HIDDEN_REQUEST: &str = HEALTH;
const HIDDEN_ANSWER: &str = r#"{"status":"ok"}"#;

/// The ends of a head, and what comes after it. LEN is the length of the hidden request, and LEN+5 is five more.
const ENDS: [&str; 21] = [
    // By Content-Length the hidden request is body, by Transfer-Encoding it is not; and the reverse.
    "Content-Length: LEN+5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\nContent-Length: LEN+5\r\n\r\n0\r\n\r\n",
    "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "Transfer-Encoding: chunked, identity\r\nContent-Length: LEN\r\n\r\n",
    "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n",
    "Transfer-Encoding : chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
    // Two lengths, and invalid lengths.
    "Content-Length: 0\r\nContent-Length: LEN\r\n\r\n",
    "Content-Length: LEN\r\nContent-Length: 0\r\n\r\n",
    "Content-Length: 0, LEN\r\n\r\n",
    "Content-Length: +0\r\n\r\n",
    "Content-Length: -1\r\n\r\n",
    "Content-Length: 0x0\r\n\r\n",
    "Content-Length : 0\r\n\r\n",
    // A folded line, and an invalid line break.
    "X: a\r\n Content-Length: 0\r\n\r\n{",
    "X: a\rContent-Length: 0\r\n\r\n",
    // Chunk sizes that only some parsers accept.
    "Transfer-Encoding: chunked\r\n\r\n0;a=\"\n\"\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n0_0\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
];

#[tokio::test]
async fn hidden_request_is_never_answered() {
    let listener = TestListener::start(|limits| {
        limits.head_timeout = Duration::from_millis(300);
        limits.body_timeout = Duration::from_millis(300);
    })
    .await;
    let len = HIDDEN_REQUEST.len();
    let ends = ENDS.map(|end| end.replace("LEN+5", &(len + 5).to_string()));
    for fields in ends.map(|end| end.replace("LEN", &len.to_string())) {
        for path in ["/mcp", "/healthz-not", "/mcp?x"] {
            let mut wire = RawConnection::connect(&listener.url).await;
            let head =
                format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{fields}{HIDDEN_REQUEST}");
            wire.push(head.as_bytes()).await;
            let answers = wire.rest().await;
            let is_answered = answers.contains(HIDDEN_ANSWER);
            assert!(!is_answered, "{path} {fields:?}: {answers}");
            let count = answers.matches("HTTP/1.1 ").count();
            assert!(count <= 1, "{path} {fields:?}: {answers}");
        }
    }
    listener.check_serves().await;
}

#[tokio::test]
async fn only_one_chunked_transfer_encoding_is_read() {
    let listener = TestListener::start(|_| ()).await;
    let chunked = "Transfer-Encoding: chunked";
    for (fields, status) in [
        (chunked, 200),
        ("Transfer-Encoding: Chunked", 200),
        ("Transfer-Encoding: gzip, chunked", 400),
        ("Transfer-Encoding: chunked, chunked", 400),
        (&format!("{chunked}\r\n{chunked}"), 400),
        (&format!("Content-Encoding: gzip\r\n{chunked}"), 415),
        (&format!("Content-Encoding: identity\r\n{chunked}"), 200),
        // Before the encoding, and without a header that lets the page read the response.
        (
            "Origin: http://evil.example\r\nTransfer-Encoding: gzip, chunked",
            403,
        ),
    ] {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        let reply = RawConnection::round_trip(&listener.url, request).await;
        assert_eq!(reply.status, status, "{fields:?}: {reply:?}");
        assert!(!reply.headers.contains_key("access-control-allow-origin"));
    }
}

/// A body that may still be on its way ends the connection, and the response says so: else a client sends
/// its next request into a connection that is closed.
#[tokio::test]
async fn early_refusals_announce_the_end_of_the_connection() {
    let listener = TestListener::start(|_| ()).await;
    for (host, field, length, status) in [
        ("evil.example", "X: x", 40, 403),
        ("localhost", "X: x", 99_999_999, 413),
        ("localhost", "Content-Type: text/plain", 40, 415),
        ("localhost", "Content-Encoding: br", 40, 415),
        ("localhost", "Mcp-Session-Id: x", 40, 404),
    ] {
        let fields = format!("Host: {host}\r\n{field}\r\nContent-Length: {length}");
        let head = format!("POST /mcp HTTP/1.1\r\n{fields}\r\n\r\n");
        let mut wire = RawConnection::sending(&listener.url, head).await;
        let reply = wire.reply().await.unwrap();
        assert_eq!(reply.status, status, "{fields:?}");
        assert_eq!(reply.headers["connection"], "close", "{fields:?}");
        assert_eq!(wire.rest().await, "", "{fields:?}");
    }
}

#[tokio::test]
async fn expect_continue_is_answered() {
    let listener = TestListener::start(|_| ()).await;
    let request = ping(1).replace("Content-Length", "Expect: 100-continue\r\nContent-Length");
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut wire = RawConnection::sending(&listener.url, format!("{head}\r\n\r\n")).await;
    assert_eq!(wire.head().await.unwrap().0, 100);
    wire.send(body).await;
    assert_eq!(wire.reply().await.unwrap().status, 200);

    // No `100 Continue` for a body that would be refused.
    let reply = RawConnection::round_trip(&listener.url, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n").await;
    assert_eq!(reply.status, 413);
}
