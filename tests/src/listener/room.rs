//! Room for new connections at the limit.

use mcp_serve::Tokens;

use super::{HEALTH, TestListener};
use crate::harness::{Dialect, RawConnection, post};

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
