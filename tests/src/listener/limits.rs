//! Time and size: what is too slow or too large ends by itself.

use std::time::{Duration, Instant};

use mcp_serve::Limits;

use super::{Listening, ping};
use crate::harness::{Dialect, RawConnection, Server, post};

/// The limit under test; the others keep their seconds.
const SHORT: Duration = Duration::from_millis(200);
/// Far above the limit under test, far below the limits of the default.
const SOON: Duration = Duration::from_secs(8);

#[track_caller]
fn soon(started: Instant) {
    let took = started.elapsed();
    assert!(took >= SHORT / 2 && took < SOON, "took {took:?}");
}

#[tokio::test]
async fn a_head_that_does_not_come_is_given_up() {
    let listening = Listening::start(Limits {
        head_timeout: SHORT,
        ..Limits::default()
    })
    .await;
    for sent in ["", "P", "POST /mcp HTTP/1.1\r\nHost: local", "\r\n"] {
        let started = Instant::now();
        let mut wire = RawConnection::connect(&listening.url).await;
        wire.send(sent).await;
        let answer = wire.rest().await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 408"),
            "{answer}"
        );
        soon(started);
    }
    // An open connection that nobody uses is as silent as a new one.
    let mut wire = RawConnection::connect(&listening.url).await;
    wire.send(ping(1)).await;
    assert_eq!(wire.reply().await.unwrap().status, 200);
    assert_eq!(wire.rest().await, "");
    listening.serves().await;
}

/// Sends a byte now and then, until the server has had enough.
async fn drip(url: &str, head: &str) -> Duration {
    let started = Instant::now();
    let mut wire = RawConnection::connect(url).await;
    wire.send(head).await;
    while started.elapsed() < SOON && wire.is_open(Duration::from_millis(20)).await {
        wire.push(b"x").await;
    }
    started.elapsed()
}

#[tokio::test]
async fn a_byte_now_and_then_is_no_progress() {
    let listening = Listening::start(Limits {
        head_timeout: SHORT,
        body_timeout: SHORT,
        ..Limits::default()
    })
    .await;
    assert!(
        drip(
            &listening.url,
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: "
        )
        .await
            < SOON
    );
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n";
    assert!(drip(&listening.url, head).await < SOON);
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n";
    assert!(drip(&listening.url, head).await < SOON);
    listening.serves().await;
}

#[tokio::test]
async fn a_body_that_stops_coming_is_given_up() {
    let listening = Listening::start(Limits {
        body_idle_timeout: SHORT,
        ..Limits::default()
    })
    .await;
    for rest in [
        "Content-Length: 100\r\n\r\n",
        "Content-Length: 100\r\n\r\n{\"jsonrpc\"",
        "Transfer-Encoding: chunked\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"jso\r\n",
    ] {
        let started = Instant::now();
        let mut wire = RawConnection::connect(&listening.url).await;
        wire.send(format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{rest}"))
            .await;
        assert_eq!(wire.reply().await.unwrap().status, 408, "{rest}");
        assert_eq!(wire.rest().await, "");
        soon(started);
    }
    listening.serves().await;
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_given_up() {
    // The one connection that there is room for is the one that does not read.
    let listening = Listening::start(Limits {
        max_connections: 1,
        write_timeout: SHORT,
        ..Limits::default()
    })
    .await;
    let value = "x".repeat(3_000_000);
    let members = format!(r#""name":"echo","arguments":{{"value":"{value}"}}"#);
    let body = Dialect::Unversioned.request("1", "tools/call", &members);
    for accept in ["Accept: application/json", "Accept: text/event-stream"] {
        let mut wire = RawConnection::with_small_buffer(&listening.url).await;
        wire.send(post(&[accept], &body)).await;
        let started = Instant::now();
        listening.serves().await;
        soon(started);
        // What was sent is cut off.
        assert!(wire.rest().await.len() < body.len(), "{accept}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_it_is_read() {
    const LIMIT: usize = 10_000;
    let listening = Listening::start(Limits {
        max_body_bytes: LIMIT,
        ..Limits::default()
    })
    .await;
    // Declared: refused by the head alone.
    let mut wire = RawConnection::connect(&listening.url).await;
    wire.send(format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        LIMIT + 1
    ))
    .await;
    let reply = wire.reply().await.unwrap();
    assert_eq!(reply.status, 413);
    let error = &reply.json()["error"];
    assert_eq!(error["data"]["kind"], "too_large");
    assert_eq!(error["data"]["limit"], LIMIT);
    assert_eq!(wire.rest().await, "");

    // Not declared: refused at the limit, however much is still to come.
    let mut wire = RawConnection::connect(&listening.url).await;
    wire.send("POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    let chunk = format!("2710\r\n{}\r\n", "x".repeat(0x2710));
    wire.push(chunk.repeat(2).as_bytes()).await;
    assert_eq!(wire.reply().await.unwrap().status, 413);
    assert_eq!(wire.rest().await, "");

    // At the limit it is taken.
    let pad = "x".repeat(LIMIT - 70);
    let reply = RawConnection::round_trip(
        &listening.url,
        post(
            &[],
            &Dialect::Unversioned.request(&format!("\"{pad}\""), "ping", ""),
        ),
    )
    .await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn a_client_that_is_still_writing_can_read_why_it_was_refused() {
    let server = Server::start("mcp-conformance", &[]).await;
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
async fn a_head_that_is_none_is_told_so() {
    let listening = Listening::start(Limits::default()).await;
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
        let mut wire = RawConnection::connect(&listening.url).await;
        wire.push(head.as_bytes()).await;
        assert_eq!(wire.reply().await.unwrap().status, status);
        assert_eq!(wire.rest().await, "");
    }
    listening.serves().await;
}
