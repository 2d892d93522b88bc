//! Shutdown: requests in flight finish, subscriptions end, nothing is left.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{BODY_BEGUN, TestListener, ping, start_slow, subscribe};
use crate::harness::{CALL_TIMEOUT, RawConnection, Server, assert_contains, binary};

const FIXTURE: &str = "mcp-conformance";

/// Opens a subscription and reads its acknowledgement.
async fn listen(url: &str) -> RawConnection {
    let (mut wire, status) = subscribe(url, &[]).await;
    assert_eq!(status, 200);
    let event = String::from_utf8(wire.chunk().await.unwrap()).unwrap();
    assert_contains(&event, "notifications/subscriptions/acknowledged");
    wire
}

#[tokio::test]
async fn shutdown_finishes_calls_and_ends_subscriptions() {
    for name in [Signal::SIGTERM, Signal::SIGINT] {
        let mut server = Server::start(FIXTURE, &[]).await;
        let (mut calls, mut streams, mut idle) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..20 {
            calls.push(start_slow(&server.url, 100, 8).await);
            streams.push(listen(&server.url).await);
            idle.push(RawConnection::connect(&server.url).await);
            let mut silent = RawConnection::sending(&server.url, ping(1)).await;
            assert_eq!(silent.reply().await.unwrap().status, 200);
            idle.push(silent);
        }
        server.signal(name);
        for mut call in calls {
            let events = call.rest().await;
            assert!(events.contains(r#"{\"done\":8}"#), "{events}");
        }
        for mut stream in streams {
            let events = stream.rest().await;
            assert!(events.contains(r#""result":{"#), "{events}");
            assert_contains(&events, "io.modelcontextprotocol/subscriptionId");
        }
        for mut connection in idle {
            assert_eq!(connection.rest().await, "");
        }
        assert_eq!(server.wait_for_exit().await, Some(0), "{name}");
    }
}

#[tokio::test]
async fn shutdown_accepts_no_new_connection() {
    let listener = TestListener::start(|_| ()).await;
    let mut call = start_slow(&listener.url, 50, 10).await;
    let address = listener.url.replace("http://", "").replace("/mcp", "");
    listener.stop.cancel();
    // The port is closed at once, while the call continues.
    let closed = tokio::time::timeout(CALL_TIMEOUT, async {
        while tokio::net::TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    });
    closed.await.expect("the port is still open");
    assert!(call.rest().await.contains(r#"{\"done\":10}"#));
    listener.task.await.unwrap();
}

#[tokio::test]
async fn shutdown_waits_only_for_the_grace_period() {
    let listener =
        TestListener::start(|limits| limits.shutdown_grace = Duration::from_millis(300)).await;
    let _call = start_slow(&listener.url, 600, 1000).await;
    let _body = RawConnection::sending(&listener.url, BODY_BEGUN).await;
    listener.stop.cancel();
    // Sooner than the call and the body end.
    let stopped = tokio::time::timeout(CALL_TIMEOUT, listener.task);
    stopped.await.expect("it waits for them").unwrap();
}

#[tokio::test]
async fn second_signal_exits_at_once() {
    let mut server = Server::start(FIXTURE, &[]).await;
    let _call = start_slow(&server.url, 20, 1000).await;
    server.signal(Signal::SIGTERM);
    server.wait_for_log("stopping").await;
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait_for_exit().await, Some(1));
}

#[tokio::test]
async fn closed_stderr_does_not_prevent_shutdown() {
    let mut child = tokio::process::Command::new(binary(FIXTURE))
        .args(["--port", "0"])
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(line) = log.next_line().await.unwrap() {
        if line.contains("listens on") {
            break;
        }
    }
    drop(log);
    let pid = child.id().unwrap().try_into().unwrap();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    let ended = tokio::time::timeout(CALL_TIMEOUT, child.wait());
    let ended = ended.await.expect("the server does not exit").unwrap();
    assert_eq!(ended.code(), Some(0));
}
