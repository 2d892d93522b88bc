//! Limits of time and size.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{LONG, TestListener, ping};
use crate::harness::{CALL_TIMEOUT, Dialect, RawConnection, post, post_message, wait_until};

/// The timeout under test; the others are longer than a test waits.
const TIMEOUT: Duration = Duration::from_millis(200);

/// The first lines of a request.
const START: &str = "POST /mcp HTTP/1.1\r\nHost: localhost\r\n";

#[tokio::test]
async fn incomplete_head_times_out() {
    let listener = TestListener::start(|limits| limits.head_timeout = TIMEOUT).await;
    for sent in ["", "P", "POST /mcp HTTP/1.1\r\nHost: local", "\r\n"] {
        let started = Instant::now();
        let mut wire = RawConnection::sending(&listener.url, sent).await;
        let answer = wire.rest().await;
        let is_408 = answer.starts_with("HTTP/1.1 408");
        assert!(answer.is_empty() || is_408, "{answer}");
        assert!(started.elapsed() >= TIMEOUT, "{sent:?}");
    }
    // An idle connection has the same timeout as a new one.
    let mut wire = RawConnection::sending(&listener.url, ping(1)).await;
    assert_eq!(wire.reply().await.unwrap().status, 200);
    assert_eq!(wire.rest().await, "");
    listener.check_serves().await;
}

#[tokio::test]
async fn slow_heads_and_bodies_time_out() {
    let listener = TestListener::start(|limits| {
        limits.head_timeout = TIMEOUT;
        limits.body_timeout = TIMEOUT;
    })
    .await;
    for rest in [
        "X: ",
        "Content-Length: 1000\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n3e8\r\n",
    ] {
        // One byte every 20 ms until the server closes the connection.
        let mut wire = RawConnection::sending(&listener.url, format!("{START}{rest}")).await;
        let sending = tokio::time::timeout(CALL_TIMEOUT, async {
            while !wire.is_readable_within(Duration::from_millis(20)).await {
                wire.push(b"x").await;
            }
        });
        sending.await.expect("the timeout");
    }
    listener.check_serves().await;
}

#[tokio::test]
async fn incomplete_body_times_out() {
    let listener = TestListener::start(|limits| limits.body_timeout = TIMEOUT).await;
    for rest in [
        "Content-Length: 100\r\n\r\n",
        "Content-Length: 100\r\n\r\n{\"jsonrpc\"",
        "Transfer-Encoding: chunked\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"jso\r\n",
    ] {
        let started = Instant::now();
        let mut wire = RawConnection::sending(&listener.url, format!("{START}{rest}")).await;
        assert_eq!(wire.reply().await.unwrap().status, 408, "{rest}");
        assert_eq!(wire.rest().await, "");
        assert!(started.elapsed() >= TIMEOUT, "{rest}");
    }
    listener.check_serves().await;
}

#[tokio::test]
async fn answer_that_is_not_read_times_out() {
    // The only permitted connection is the one that does not read.
    let listener = TestListener::start(|limits| {
        limits.max_connections = 1;
        limits.write_timeout = TIMEOUT;
    })
    .await;
    let value = "x".repeat(3_000_000);
    let members = format!(r#""name":"echo","arguments":{{"value":"{value}"}}"#);
    let body = Dialect::Unversioned.request("1", "tools/call", &members);
    for accept in ["Accept: application/json", "Accept: text/event-stream"] {
        let mut wire = RawConnection::with_small_buffer(&listener.url).await;
        wire.send(post(&[accept], &body)).await;
        listener.check_serves().await;
        // The answer is truncated.
        assert!(wire.rest().await.len() < body.len(), "{accept}");
    }
}

#[tokio::test]
async fn body_over_the_limit_is_refused_before_it_is_read() {
    const MAX_BODY_BYTES: usize = 10_000;
    let listener = TestListener::start(|limits| limits.max_body_bytes = MAX_BODY_BYTES).await;
    // With a declared length: refused by the head alone.
    let head = format!("{START}Content-Length: {}\r\n\r\n", MAX_BODY_BYTES + 1);
    let mut wire = RawConnection::sending(&listener.url, head).await;
    let reply = wire.reply().await.unwrap();
    assert_eq!(reply.status, 413);
    let data = &reply.json()["error"]["data"];
    assert_has!(data, {"kind": "too_large", "limit": MAX_BODY_BYTES});
    assert_eq!(wire.rest().await, "");

    // Without a declared length: refused at the limit.
    let head = format!("{START}Transfer-Encoding: chunked\r\n\r\n");
    let mut wire = RawConnection::sending(&listener.url, head).await;
    let chunk = format!("2710\r\n{}\r\n", "x".repeat(0x2710));
    wire.push(chunk.repeat(2).as_bytes()).await;
    assert_eq!(wire.reply().await.unwrap().status, 413);
    assert_eq!(wire.rest().await, "");

    // At the limit it is accepted.
    let id = format!("\"{}\"", "x".repeat(MAX_BODY_BYTES - 70));
    let ping = post(&[], &Dialect::Unversioned.request(&id, "ping", ""));
    let reply = RawConnection::round_trip(&listener.url, ping).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn client_that_is_still_sending_can_read_the_refusal() {
    let listener = TestListener::start(|limits| limits.linger_timeout = LONG).await;
    let url = &listener.url;
    // A client that sends all before it reads, as Python's http.client does.
    let mut wire = RawConnection::connect(url).await;
    wire.push(post(&[], &" ".repeat(60 * 1024 * 1024)).as_bytes())
        .await;
    assert_eq!(wire.reply().await.unwrap().status, 413);
    // A client that is interrupted: the server has answered and closed its side before the body is sent.
    let size = 5 * 1024 * 1024;
    let head = format!("{START}Content-Length: {size}\r\n\r\n");
    for _ in 0..20 {
        let mut wire = RawConnection::sending(url, &head).await;
        assert!(wire.is_readable_within(CALL_TIMEOUT).await);
        assert_eq!(wire.push(&vec![b' '; size]).await, size);
        assert_eq!(wire.reply().await.unwrap().status, 413);
    }
    for size in [4 * 1024 * 1024 + 1, 8 * 1024 * 1024] {
        for _ in 0..5 {
            let reply = post_message(url, &[], &json!(" ".repeat(size))).await;
            assert_eq!(reply.status, 413);
            assert_eq!(reply.json()["error"]["code"], 41300);
            let mut wire = RawConnection::connect(url).await;
            wire.push(post(&[], &" ".repeat(size)).as_bytes()).await;
            assert_eq!(wire.reply().await.unwrap().status, 413);
        }
    }
}

#[tokio::test]
async fn invalid_heads_are_refused() {
    let listener = TestListener::start(|_| ()).await;
    let long = format!("X: {}\r\n", "x".repeat(300_000));
    for (head, status) in [
        ("GARBAGE\u{1}\r\n\r\n", 400),
        ("POST /mcp HTTP/1.1\r\nHost : localhost\r\n\r\n", 400),
        (&format!("GET /mcp HTTP/1.1\r\n{long}\r\n"), 431),
        (
            &format!("GET /mcp HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(101)),
            431,
        ),
    ] {
        let mut wire = RawConnection::connect(&listener.url).await;
        wire.push(head.as_bytes()).await;
        assert_eq!(wire.reply().await.unwrap().status, status);
        assert_eq!(wire.rest().await, "");
    }
    listener.check_serves().await;
}

/// A large body takes its memory before it is sent; a small one always has room.
#[tokio::test]
async fn memory_of_large_bodies_is_limited() {
    for (more, room) in [
        ("Content-Length: 614400\r\n\r\n", 400 * 1024),
        ("Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", 0),
    ] {
        let listener = TestListener::start(|limits| {
            limits.max_body_bytes = 1024 * 1024;
            limits.max_body_memory = 1024 * 1024;
        })
        .await;
        let head = format!("{START}Content-Type: application/json\r\n{more}");
        let _slow = RawConnection::sending(&listener.url, head).await;
        for (bytes, status) in [(room, 200), (room + 100 * 1024, 503), (0, 200)] {
            let ping = Dialect::Unversioned.request("1", "ping", "");
            let sent = post(&[], &(ping + &" ".repeat(bytes)));
            wait_until("the status", async || {
                let reply = RawConnection::round_trip(&listener.url, &sent).await;
                reply.status == status
            })
            .await;
        }
    }
}
