//! Many at once: caps, order, and what is left behind.

use std::time::{Duration, Instant};

use mcp_serve::Limits;
use serde_json::json;
use tokio::io::AsyncBufReadExt as _;

use super::{Listening, ping, slow, start_slow};
use crate::harness::{Dialect, RawConnection, Server, post, wait_until};

#[tokio::test]
async fn more_connections_than_allowed_wait_for_room() {
    let listening = Listening::start(Limits {
        max_connections: 2,
        ..Limits::default()
    })
    .await;
    let mut inside = Vec::new();
    for _ in 0..2 {
        let mut wire = RawConnection::connect(&listening.url).await;
        wire.send(ping(1)).await;
        assert_eq!(wire.reply().await.unwrap().status, 200);
        inside.push(wire);
    }
    let mut waiting = RawConnection::connect(&listening.url).await;
    waiting.send(ping(3)).await;
    assert!(!waiting.is_readable_within(Duration::from_millis(200)).await);
    // Those inside are served meanwhile.
    inside[0].send(ping(2)).await;
    assert_eq!(inside[0].reply().await.unwrap().json()["id"], 2);
    drop(inside.pop());
    assert_eq!(waiting.reply().await.unwrap().json()["id"], 3);
}

#[tokio::test]
async fn more_requests_than_allowed_are_sent_away() {
    let listening = Listening::start(Limits {
        max_in_flight: 2,
        ..Limits::default()
    })
    .await;
    let one = start_slow(&listening.url, 20, 1000).await;
    let two = start_slow(&listening.url, 20, 1000).await;
    let mut wire = RawConnection::connect(&listening.url).await;
    for id in 0..3 {
        wire.send(ping(id)).await;
        let reply = wire.reply().await.unwrap();
        assert_eq!(reply.status, 503);
        assert_eq!(reply.headers["retry-after"], "1");
        assert!(reply.json()["error"].is_object() || reply.json()["error"].is_string());
    }
    // Health is no request.
    wire.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    assert_eq!(wire.reply().await.unwrap().status, 200);
    drop((one, two));
}

#[tokio::test]
async fn a_body_that_does_not_come_takes_no_place() {
    let listening = Listening::start(Limits {
        max_in_flight: 1,
        ..Limits::default()
    })
    .await;
    let mut slow = Vec::new();
    for _ in 0..5 {
        let mut wire = RawConnection::connect(&listening.url).await;
        wire.send("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            .await;
        slow.push(wire);
    }
    listening.serves().await;
    // One that has arrived does.
    let running = start_slow(&listening.url, 20, 1000).await;
    let reply = RawConnection::round_trip(&listening.url, ping(1)).await;
    assert_eq!(reply.status, 503);
    drop((slow, running));
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let listening = Listening::start(Limits::default()).await;
    let mut wire = RawConnection::connect(&listening.url).await;
    let slow = slow(20, 2).replace("Accept: application/json, text/event-stream\r\n", "");
    let all: Vec<String> = (2..=100).map(ping).collect();
    wire.send(format!("{slow}{}", all.concat())).await;
    for id in 1..=100 {
        assert_eq!(wire.reply().await.unwrap().json()["id"], id);
    }
}

#[tokio::test]
async fn an_answer_does_not_wait_for_the_next_request() {
    let listening = Listening::start(Limits::default()).await;
    for begun in ["P", "POST /mcp HTTP/1.1\r\nHost: loc", "\r\n"] {
        let mut wire = RawConnection::connect(&listening.url).await;
        wire.send(format!("{}{begun}", ping(1))).await;
        // Far below the patience for the head of the second.
        let started = Instant::now();
        assert_eq!(wire.reply().await.unwrap().status, 200);
        assert!(started.elapsed() < Duration::from_secs(5), "{begun:?}");
    }
}

#[tokio::test]
async fn what_is_refused_leaves_nothing_behind() {
    const COUNT: usize = 10_000;
    let server = Server::with_args("mcp-conformance", &["--token", "t0ken"], &[]).await;
    let auth = "Authorization: Bearer t0ken";
    let refused = [
        post(&[auth, "Origin: http://evil.example"], "{}"),
        post(&[auth], "{}").replacen("Host: localhost", "Host: evil.example", 1),
        post(&[], "{}"),
        post(&["Authorization: Bearer wrong"], "{}"),
        post(&[auth], "{"),
        post(&[auth], r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#),
        post(&[auth, "MCP-Protocol-Version: 1999-01-01"], "{}"),
        post(&[auth, "Mcp-Session-Id: nobody"], "{}"),
        post(&[auth, "Content-Type: text/plain"], "{}"),
        post(
            &[auth],
            &Dialect::Unversioned.request("1", "tools/call", r#""name":"nobody""#),
        ),
    ];
    // Warm-up: buffers and pools grow to their size.
    knock(&server, &refused, COUNT / 5).await;
    let before = server.memory_kib();
    knock(&server, &refused, COUNT).await;
    let grown = server.memory_kib().saturating_sub(before);
    assert!(grown < 2 * 1024, "grown by {grown} KiB");
}

/// Sends `count` requests that are refused, over a few connections at a time.
async fn knock(server: &Server, refused: &[String], count: usize) {
    const AT_ONCE: usize = 100;
    for _ in 0..count / AT_ONCE {
        let mut wire = RawConnection::connect(&server.url).await;
        let requests: String = refused
            .iter()
            .cycle()
            .take(AT_ONCE)
            .map(String::as_str)
            .collect();
        wire.send(requests).await;
        for _ in 0..AT_ONCE {
            let reply = wire.reply().await.expect("the connection stays");
            assert!(reply.body.contains("error"), "{reply:?}");
        }
    }
}

#[tokio::test]
async fn a_stream_is_about_as_fast_as_a_reply() {
    const ROUNDS: usize = 60;
    let server = Server::start("mcp-conformance", &[]).await;
    let mut medians = Vec::new();
    // The stream is written in several pieces, as it comes.
    let stream = slow(1, 2);
    let reply = stream.replace(", text/event-stream", "");
    for request in [reply, stream] {
        let mut wire = RawConnection::connect(&server.url).await;
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let started = Instant::now();
            wire.send(&request).await;
            let reply = wire.reply().await.unwrap();
            assert!(reply.body.contains(r#"\"done\":2"#), "{reply:?}");
            times.push(started.elapsed());
        }
        times.sort();
        medians.push(times[ROUNDS / 2]);
    }
    // Nagle's algorithm against delayed acknowledgements would cost 40 ms each.
    let [json, events] = medians[..] else {
        panic!()
    };
    assert!(
        events < json * 3 || events < json + Duration::from_millis(20),
        "{json:?} {events:?}"
    );
}

#[tokio::test]
async fn who_leaves_a_plain_call_does_not_stop_it() {
    let server = Server::start("mcp-conformance", &[]).await;
    start_slow(&server.url, 100, 5).await.reset();
    // Each question counts itself, so one more than those is the call that was left.
    let mut asked = 0;
    wait_until("the call to be finished", async || {
        let info = server.result("mcp.getServerInfo", json!({})).await;
        let metrics = &info["health_metrics"];
        assert_eq!(metrics["failed_requests"], 0, "{info}");
        asked += 1;
        metrics["successful_requests"] == asked
    })
    .await;
}

#[tokio::test]
async fn who_leaves_a_modern_call_stops_it() {
    let server = Server::start("mcp-conformance", &[("MCP_LOG", "debug")]).await;
    let members = r#""name":"slow","arguments":{"step":60000,"steps":1}"#;
    let body = Dialect::Modern.request("1", "tools/call", members);
    let fields = [
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        "Mcp-Name: slow",
    ];
    for fields in [
        fields,
        ["Accept: text/event-stream", fields[1], fields[2], fields[3]],
    ] {
        let stopped = server.log().matches("Stopped as asked").count();
        let mut wire = RawConnection::connect(&server.url).await;
        wire.send(post(&fields, &body)).await;
        // Nothing tells that it has begun; one that has not is stopped all the same.
        assert!(
            !wire.is_readable_within(Duration::from_millis(100)).await
                || fields[0].ends_with("stream")
        );
        wire.reset();
        wait_until("the call to be stopped", async || {
            server.log().matches("Stopped as asked").count() > stopped
        })
        .await;
    }
}

#[tokio::test]
async fn a_client_that_asks_too_often_is_told_when_to_come_back() {
    let dir = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let tokens = dir.join(uuid::Uuid::new_v4().to_string());
    std::fs::write(&tokens, "busy b-token\ncalm c-token\n").unwrap();
    let tokens = tokens.to_str().unwrap();
    let args = ["--token-file", tokens, "--rate-limit", "5"];
    let server = Server::with_args("mcp-conformance", &args, &[]).await;
    let ask = async |token: &str| {
        // What a proxy says about the client is not believed.
        let address = uuid::Uuid::new_v4().to_string();
        let body = Dialect::Unversioned.request("1", "ping", "");
        let headers = [("authorization", token), ("x-forwarded-for", &address)];
        server.post_with(&headers, body).await
    };
    let mut refused = None;
    for _ in 0..1000 {
        let reply = ask("Bearer b-token").await;
        if reply.status != 200 {
            refused = Some(reply);
            break;
        }
    }
    let reply = refused.expect("there is no limit");
    assert_eq!(reply.status, 429);
    assert_eq!(reply.headers["retry-after"], "1");
    let error = &reply.json()["error"];
    assert_has!(error, {"code": 42900, "data": {"kind": "rate_limited"}});
    // Others are served, and those who ask whether it lives are told.
    assert_eq!(ask("Bearer c-token").await.status, 200);
    for _ in 0..20 {
        assert_eq!(server.request("GET", "/healthz", &[]).await.status, 200);
    }
}

#[tokio::test]
async fn without_file_descriptors_it_waits_and_serves_on() {
    // Room for a few connections, far below the cap.
    let mut server = tokio::process::Command::new("sh")
        .args(["-c", r#"ulimit -n 40; exec "$0" --port 0"#])
        .arg(crate::harness::binary("mcp-conformance"))
        .env_clear()
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut log = tokio::io::BufReader::new(server.stderr.take().unwrap()).lines();
    let mut url = String::new();
    while url.is_empty() {
        let line = log.next_line().await.unwrap().expect("it ended");
        if let Some((_, found)) = line.split_once("listens on ") {
            url = found.trim().to_owned();
        }
    }
    let mut crowd = Vec::new();
    for _ in 0..100 {
        crowd.push(RawConnection::connect(&url).await);
    }
    let told = tokio::time::timeout(Duration::from_secs(20), async {
        while let Some(line) = log.next_line().await.unwrap() {
            if line.contains("cannot accept a connection") {
                return true;
            }
        }
        false
    });
    assert!(
        told.await.expect("it accepts what it cannot hold"),
        "it ended"
    );
    drop(crowd);
    let mut wire = RawConnection::connect(&url).await;
    wire.send(ping(1)).await;
    assert_eq!(wire.reply().await.unwrap().status, 200);
}
