//! Limits of time and size.

use std::time::{Duration, Instant};

use super::{TestListener, ping};
use crate::harness::{Dialect, RawConnection, Server, post, wait_until};

/// The timeout under test; the others keep their default of seconds.
const TIMEOUT: Duration = Duration::from_millis(200);
/// Far above the timeout under test, far below the default timeouts.
const TOLERANCE: Duration = Duration::from_secs(8);

#[track_caller]
fn check_timed_out(started: Instant) {
    let took = started.elapsed();
    assert!(took >= TIMEOUT / 2 && took < TOLERANCE, "took {took:?}");
}

#[tokio::test]
async fn incomplete_head_times_out() {
    let listener = TestListener::start(|limits| limits.head_timeout = TIMEOUT).await;
    for sent in ["", "P", "POST /mcp HTTP/1.1\r\nHost: local", "\r\n"] {
        let started = Instant::now();
        let mut wire = RawConnection::connect(&listener.url).await;
        wire.send(sent).await;
        let answer = wire.rest().await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 408"),
            "{answer}"
        );
        check_timed_out(started);
    }
    // An idle connection has the same timeout as a new one.
    let mut wire = RawConnection::connect(&listener.url).await;
    wire.send(ping(1)).await;
    assert_eq!(wire.reply().await.unwrap().status, 200);
    assert_eq!(wire.rest().await, "");
    listener.check_serves().await;
}

/// Sends one byte every 20 ms until the server closes the connection.
async fn drip(url: &str, head: &str) -> Duration {
    let started = Instant::now();
    let mut wire = RawConnection::connect(url).await;
    wire.send(head).await;
    while started.elapsed() < TOLERANCE && wire.is_open(Duration::from_millis(20)).await {
        wire.push(b"x").await;
    }
    started.elapsed()
}

#[tokio::test]
async fn slow_heads_and_bodies_time_out() {
    let listener = TestListener::start(|limits| {
        limits.head_timeout = TIMEOUT;
        limits.body_timeout = TIMEOUT;
    })
    .await;
    assert!(
        drip(
            &listener.url,
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: "
        )
        .await
            < TOLERANCE
    );
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n";
    assert!(drip(&listener.url, head).await < TOLERANCE);
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n";
    assert!(drip(&listener.url, head).await < TOLERANCE);
    listener.check_serves().await;
}

#[tokio::test]
async fn incomplete_body_times_out() {
    let listener = TestListener::start(|limits| limits.body_idle_timeout = TIMEOUT).await;
    for rest in [
        "Content-Length: 100\r\n\r\n",
        "Content-Length: 100\r\n\r\n{\"jsonrpc\"",
        "Transfer-Encoding: chunked\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"jso\r\n",
    ] {
        let started = Instant::now();
        let mut wire = RawConnection::connect(&listener.url).await;
        wire.send(format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{rest}"))
            .await;
        assert_eq!(wire.reply().await.unwrap().status, 408, "{rest}");
        assert_eq!(wire.rest().await, "");
        check_timed_out(started);
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
        let started = Instant::now();
        listener.check_serves().await;
        check_timed_out(started);
        // The answer is truncated.
        assert!(wire.rest().await.len() < body.len(), "{accept}");
    }
}

#[tokio::test]
async fn body_over_the_limit_is_refused_before_it_is_read() {
    const MAX_BODY_BYTES: usize = 10_000;
    let listener = TestListener::start(|limits| limits.max_body_bytes = MAX_BODY_BYTES).await;
    // With a declared length: refused by the head alone.
    let mut wire = RawConnection::connect(&listener.url).await;
    wire.send(format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        MAX_BODY_BYTES + 1
    ))
    .await;
    let reply = wire.reply().await.unwrap();
    assert_eq!(reply.status, 413);
    let error = &reply.json()["error"];
    assert_eq!(error["data"]["kind"], "too_large");
    assert_eq!(error["data"]["limit"], MAX_BODY_BYTES);
    assert_eq!(wire.rest().await, "");

    // Without a declared length: refused at the limit.
    let mut wire = RawConnection::connect(&listener.url).await;
    wire.send("POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    let chunk = format!("2710\r\n{}\r\n", "x".repeat(0x2710));
    wire.push(chunk.repeat(2).as_bytes()).await;
    assert_eq!(wire.reply().await.unwrap().status, 413);
    assert_eq!(wire.rest().await, "");

    // At the limit it is accepted.
    let pad = "x".repeat(MAX_BODY_BYTES - 70);
    let reply = RawConnection::round_trip(
        &listener.url,
        post(
            &[],
            &Dialect::Unversioned.request(&format!("\"{pad}\""), "ping", ""),
        ),
    )
    .await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn client_that_is_still_sending_can_read_the_refusal() {
    let server = Server::start("mcp-conformance", &[]).await;
    // A client that sends all before it reads, as Python's http.client does.
    let mut wire = RawConnection::connect(&server.url).await;
    wire.push(post(&[], &" ".repeat(60 * 1024 * 1024)).as_bytes())
        .await;
    assert_eq!(wire.reply().await.unwrap().status, 413);
    // A client that is interrupted: the server has answered and closed its side before the body is sent.
    let size = 5 * 1024 * 1024;
    for _ in 0..20 {
        let mut wire = RawConnection::connect(&server.url).await;
        wire.send(format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
        ))
        .await;
        assert!(wire.is_readable_within(Duration::from_secs(10)).await);
        assert_eq!(wire.push(&vec![b' '; size]).await, size);
        assert_eq!(wire.reply().await.unwrap().status, 413);
    }
    for size in [4 * 1024 * 1024 + 1, 8 * 1024 * 1024] {
        for _ in 0..5 {
            let reply = server.post(vec![b' '; size]).await;
            assert_eq!(reply.status, 413);
            assert_eq!(reply.json()["error"]["code"], 41300);
            let mut wire = RawConnection::connect(&server.url).await;
            wire.push(post(&[], &" ".repeat(size)).as_bytes()).await;
            assert_eq!(wire.reply().await.unwrap().status, 413);
        }
    }
}

#[tokio::test]
async fn invalid_heads_are_refused() {
    let listener = TestListener::start(|_| ()).await;
    for (head, status) in [
        ("GARBAGE\u{1}\r\n\r\n".to_owned(), 400),
        (
            "POST /mcp HTTP/1.1\r\nHost : localhost\r\n\r\n".to_owned(),
            400,
        ),
        (
            format!("GET /mcp HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(300_000)),
            431,
        ),
        (
            format!("GET /mcp HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(101)),
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
    let chunked = "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n";
    for (more, room) in [
        (
            format!("Content-Length: {}\r\n\r\n", 600 * 1024),
            400 * 1024,
        ),
        (chunked.to_owned(), 0),
    ] {
        let listener = TestListener::start(|limits| {
            limits.max_body_bytes = 1024 * 1024;
            limits.max_body_memory = 1024 * 1024;
        })
        .await;
        let mut slow = RawConnection::connect(&listener.url).await;
        slow.send(&format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}"
        ))
        .await;
        for (bytes, status) in [(room, 200), (room + 100 * 1024, 503), (0, 200)] {
            let padding = " ".repeat(bytes);
            let sent = post(
                &[],
                &format!("{}{padding}", Dialect::Unversioned.request("1", "ping", "")),
            );
            let got = async || {
                let mut wire = RawConnection::connect(&listener.url).await;
                wire.send(&sent).await;
                wire.reply().await.unwrap().status
            };
            wait_until("the status", async || got().await == status).await;
        }
    }
}
