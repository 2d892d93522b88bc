//! Many clients at once: limits, room at the limit, order, fairness, and leaks.

use std::time::Duration;

use futures_util::future::join_all;
use mcp_serve::Tokens;
use serde_json::json;

use super::{BODY_BEGUN, HEALTH, TestListener, ping, slow, start_slow, subscribe};
use crate::auth::{self, file};
use crate::harness::{Dialect, RawConnection, Server, post, wait_until};

/// So many connections that have been served and stay open.
async fn served(url: &str, count: u32) -> Vec<RawConnection> {
    let mut served = Vec::new();
    for number in 0..count {
        let mut wire = RawConnection::sending(url, ping(number)).await;
        assert_eq!(wire.reply().await.unwrap().status, 200, "{number}");
        served.push(wire);
    }
    served
}

#[tokio::test]
async fn connections_over_the_limit_wait() {
    let listener = TestListener::start(|limits| limits.max_connections = 2).await;
    let mut accepted = served(&listener.url, 2).await;
    let mut waiting = RawConnection::sending(&listener.url, ping(3)).await;
    assert!(!waiting.is_readable_within(Duration::from_millis(200)).await);
    // Accepted connections are served meanwhile.
    accepted[0].send(ping(2)).await;
    assert_eq!(accepted[0].reply().await.unwrap().json()["id"], 2);
    drop(accepted.pop());
    assert_eq!(waiting.reply().await.unwrap().json()["id"], 3);
}

#[tokio::test]
async fn health_is_answered_while_clients_hold_all_connections() {
    let listener = TestListener::start(|limits| {
        limits.max_connections = 2;
        limits.reserved_connections = 1;
    })
    .await;
    let accepted = served(&listener.url, 2).await;
    // One that sends nothing holds a reserved connection for a second only.
    let mut silent = RawConnection::connect(&listener.url).await;
    for (request, status) in [(HEALTH, 200), (&ping(2), 503), (HEALTH, 200)] {
        let reply = RawConnection::round_trip(&listener.url, request).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.headers["connection"], "close");
    }
    assert_eq!(silent.rest().await, "");
    drop(accepted);
    wait_until_ping_gets(200, &listener).await;
}

async fn wait_until_ping_gets(status: u16, listener: &TestListener) {
    wait_until("the status of a ping", async || {
        let reply = RawConnection::round_trip(&listener.url, ping(3)).await;
        reply.status == status
    })
    .await;
}

#[tokio::test]
async fn requests_over_the_limit_get_503() {
    let listener = TestListener::start(|limits| limits.max_in_flight = 2).await;
    let one = start_slow(&listener.url, 200, 1000).await;
    let two = start_slow(&listener.url, 200, 1000).await;
    let mut wire = RawConnection::connect(&listener.url).await;
    for id in 0..3 {
        wire.send(ping(id)).await;
        let reply = wire.reply().await.unwrap();
        assert_eq!(reply.status, 503);
        assert_eq!(reply.headers["retry-after"], "1");
        assert!(reply.json()["error"].is_object() || reply.json()["error"].is_string());
    }
    // Health checks are not limited.
    wire.send(HEALTH).await;
    assert_eq!(wire.reply().await.unwrap().status, 200);
    drop((one, two));
}

/// The header alone makes no subscription: calls with it count, too.
#[tokio::test]
async fn calls_with_the_header_of_a_subscription_are_limited() {
    let listener = TestListener::start(|limits| limits.max_in_flight = 1).await;
    let members = r#""name":"slow","arguments":{"step":60000,"steps":10}"#;
    let slow = Dialect::Unversioned.request("1", "tools/call", members);
    let slow = post(&["Mcp-Method: subscriptions/listen"], &slow);
    let _wire = RawConnection::sending(&listener.url, slow).await;
    // The call takes the only permit.
    wait_until_ping_gets(503, &listener).await;
}

#[tokio::test]
async fn slow_bodies_take_no_permit() {
    let listener = TestListener::start(|limits| limits.max_in_flight = 1).await;
    let mut slow = Vec::new();
    for _ in 0..5 {
        slow.push(RawConnection::sending(&listener.url, BODY_BEGUN).await);
    }
    listener.check_serves().await;
    // A complete request takes one.
    let running = start_slow(&listener.url, 200, 1000).await;
    let reply = RawConnection::round_trip(&listener.url, ping(1)).await;
    assert_eq!(reply.status, 503);
    drop((slow, running));
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let listener = TestListener::start(|_| ()).await;
    let slow = slow(20, 2).replace("Accept: application/json, text/event-stream\r\n", "");
    let all = slow + &(2..=100).map(ping).collect::<String>();
    let mut wire = RawConnection::sending(&listener.url, all).await;
    for id in 1..=100 {
        assert_eq!(wire.reply().await.unwrap().json()["id"], id);
    }
}

#[tokio::test]
async fn answer_is_sent_before_the_next_request_is_complete() {
    let listener = TestListener::start(|_| ()).await;
    for begun in ["P", "POST /mcp HTTP/1.1\r\nHost: loc", "\r\n"] {
        let sent = format!("{}{begun}", ping(1));
        let mut wire = RawConnection::sending(&listener.url, sent).await;
        // Waits for less than the timeout for the head of the second request.
        assert_eq!(wire.reply().await.unwrap().status, 200, "{begun:?}");
    }
}

#[tokio::test]
async fn refused_requests_leak_no_memory() {
    const COUNT: usize = 10_000;
    let server = Server::with_args("mcp-conformance", &["--token", "t0ken-of-16-chars"], &[]).await;
    let auth = "Authorization: Bearer t0ken-of-16-chars";
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
    // Warm-up: buffers and pools grow to their final size.
    send_refused(&server, &refused, COUNT / 5).await;
    let before = server.memory_kib();
    send_refused(&server, &refused, COUNT).await;
    let grown = server.memory_kib().saturating_sub(before);
    assert!(grown < 2 * 1024, "grown by {grown} KiB");
}

/// Sends `count` requests that are refused, pipelined over one connection after the other.
async fn send_refused(server: &Server, refused: &[String], count: usize) {
    const PIPELINED: usize = 100;
    for _ in 0..count / PIPELINED {
        let requests = refused.iter().cycle().take(PIPELINED);
        let requests: String = requests.map(String::as_str).collect();
        let mut wire = RawConnection::sending(&server.url, requests).await;
        for _ in 0..PIPELINED {
            let reply = wire.reply().await.expect("the connection is closed");
            assert!(reply.body.contains("error"), "{reply:?}");
        }
    }
}

#[tokio::test]
async fn disconnect_does_not_cancel_legacy_call() {
    let server = Server::start("mcp-conformance", &[]).await;
    start_slow(&server.url, 100, 5).await.reset();
    // Each of these requests counts itself; the other one counted is the abandoned call.
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
async fn disconnect_cancels_modern_call() {
    let args = ["--call-timeout", "600", "--log", "debug"];
    let server = Server::with_args("mcp-conformance", &args, &[]).await;
    let members = r#""name":"slow","arguments":{"step":60000,"steps":10}"#;
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
        let mut wire = RawConnection::sending(&server.url, post(&fields, &body)).await;
        wait_until("the call", async || {
            server.call("count_slow", json!({})).await["running"] == 1
        })
        .await;
        let is_readable = wire.is_readable_within(Duration::from_millis(100)).await;
        assert!(!is_readable || fields[0].ends_with("stream"));
        wire.reset();
        wait_until("the call to be stopped", async || {
            server.log().matches("Stopped as asked").count() > stopped
        })
        .await;
    }
}

#[tokio::test]
async fn rate_limit_answers_429_with_retry_after() {
    let tokens = file("busy b-token-of-16-chars\ncalm c-token-of-16-chars\n");
    let tokens = tokens.to_str().unwrap();
    let args = ["--token-file", tokens, "--rate-limit", "1"];
    let server = Server::with_args("mcp-conformance", &args, &[]).await;
    let ask = async |token: &str| {
        // The address that a proxy reports is ignored.
        let address = uuid::Uuid::new_v4().to_string();
        let body = Dialect::Unversioned.request("1", "ping", "");
        let headers = [("authorization", token), ("x-forwarded-for", &address)];
        server.post_with(&headers, body).await
    };
    let mut reply = ask("Bearer b-token-of-16-chars").await;
    for _ in 0..1000 {
        if reply.status != 200 {
            break;
        }
        reply = ask("Bearer b-token-of-16-chars").await;
    }
    assert_eq!(reply.status, 429, "there is no limit");
    assert_eq!(reply.headers["retry-after"], "1");
    let error = &reply.json()["error"];
    assert_has!(error, {"code": 42900, "data": {"kind": "rate_limited"}});
    // Other clients and health checks are served.
    assert_eq!(ask("Bearer c-token-of-16-chars").await.status, 200);
    for _ in 0..20 {
        assert_eq!(server.request("GET", "/healthz", &[]).await.status, 200);
    }
}

/// Starts the conformance server with a limit of open files.
async fn server_with_open_files(limit: &str, args: &[&str]) -> Server {
    let mut shell = tokio::process::Command::new("sh");
    let script = format!(r#"ulimit {limit}; exec "$0" --port 0 "$@""#);
    let program = crate::harness::binary("mcp-conformance");
    shell.args(["-c", &script]).arg(program).args(args);
    shell.env_clear();
    Server::spawn(shell).await
}

#[tokio::test]
async fn soft_limit_of_open_files_does_not_lower_the_connection_limit() {
    let args = ["--connection-limit", "120", "--call-timeout", "600"];
    let server = server_with_open_files("-S -n 64", &args).await;
    // With calls, since idle connections are closed after a while.
    let calls = (0..120).map(|_| start_slow(&server.url, 1000, 600));
    let _connections = join_all(calls).await;
    let reply = RawConnection::round_trip(&server.url, ping(120)).await;
    assert_eq!(reply.status, 503);
}

#[tokio::test]
async fn listener_survives_running_out_of_file_descriptors() {
    // File descriptors for a few connections, far below the limit.
    let server = server_with_open_files("-n 40", &[]).await;
    let mut connections = Vec::new();
    for _ in 0..100 {
        connections.push(RawConnection::connect(&server.url).await);
    }
    server.wait_for_log("cannot accept a connection").await;
    drop(connections);
    served(&server.url, 1).await;
}

/// Opens a subscription with `token`.
async fn listen(server: &Server, token: &str) -> (RawConnection, u16) {
    subscribe(&server.url, &[&format!("Authorization: Bearer {token}")]).await
}

#[tokio::test]
async fn streams_of_a_client_are_limited() {
    let tokens = file("alice a-s3cret-of-16-chars\nbob b-s3cret-of-16-chars\n");
    let tokens = tokens.to_str().unwrap();
    let args = ["--token-file", tokens, "--stream-limit", "3"];
    let server = Server::with_args("mcp-conformance", &args, &[]).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let (wire, status) = listen(&server, "a-s3cret-of-16-chars").await;
        assert_eq!(status, 200);
        open.push(wire);
    }
    let (_, status) = listen(&server, "a-s3cret-of-16-chars").await;
    assert_eq!(status, 429);
    // Other clients, and calls of this one, are not affected.
    let (_bob, status) = listen(&server, "b-s3cret-of-16-chars").await;
    assert_eq!(status, 200);
    assert_eq!(auth::status(&server, "a-s3cret-of-16-chars").await, 200);
    drop(open.pop());
    wait_until("a stream is free again", async || {
        listen(&server, "a-s3cret-of-16-chars").await.1 == 200
    })
    .await;
}

/// Connections without a valid token make room for others; those with one stay, and are never made to.
#[tokio::test]
async fn connections_without_a_token_do_not_lock_out_clients_with_one() {
    const MAX_CONNECTIONS: usize = 4;
    let start = async |reserved: usize| {
        let tokens = Tokens::parse("alice alice-has-a-token-of-32-characters").unwrap();
        let started = TestListener::start_guarded(tokens, None, |limits| {
            limits.max_connections = MAX_CONNECTIONS;
            limits.reserved_connections = reserved;
        });
        started.await
    };
    let with_token = |token: &str| {
        let body = Dialect::Unversioned.request("1", "ping", "");
        post(&[&format!("Authorization: Bearer {token}")], &body)
    };
    let authorized = &with_token("alice-has-a-token-of-32-characters");
    for (name, reserved, sent, status) in [
        ("health checks", 1, HEALTH, Some(200)),
        ("health checks, no reserve", 0, HEALTH, Some(200)),
        ("silent", 1, "", None),
        (
            "a part of a head",
            0,
            "POST /mcp HTTP/1.1\r\nHost: local",
            None,
        ),
        ("a wrong token", 1, &with_token("wrong"), Some(401)),
    ] {
        let listener = start(reserved).await;
        let flood = async |count: usize| {
            let mut open = Vec::new();
            for _ in 0..count {
                let mut wire = RawConnection::sending(&listener.url, sent).await;
                if let Some(status) = status {
                    assert_eq!(wire.reply().await.unwrap().status, status, "{name}");
                }
                open.push(wire);
            }
            open
        };
        let first = flood(2 * MAX_CONNECTIONS).await;
        let mut alice = RawConnection::connect(&listener.url).await;
        for more in [0, 2 * MAX_CONNECTIONS] {
            let others = flood(more).await;
            alice.send(authorized).await;
            assert_eq!(alice.reply().await.unwrap().status, 200, "{name}");
            drop(others);
        }
        drop(first);
    }
    // Those with a token do not end each other.
    let listener = start(1).await;
    let mut clients = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        let mut wire = RawConnection::sending(&listener.url, authorized).await;
        assert_eq!(wire.reply().await.unwrap().status, 200);
        clients.push(wire);
    }
    let reply = RawConnection::round_trip(&listener.url, authorized).await;
    assert_eq!(reply.status, 503);
    for wire in &mut clients {
        wire.send(authorized).await;
        assert_eq!(wire.reply().await.unwrap().status, 200);
    }
}
