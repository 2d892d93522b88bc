//! Open streams: their limit per client, and their end when a token is removed.

use std::time::Duration;

use super::subscribe;
use crate::auth::file;
use crate::harness::{Dialect, RawConnection, Server, wait_until};

/// Opens a subscription with `token`.
async fn listen(server: &Server, token: &str) -> (RawConnection, u16) {
    subscribe(&server.url, &[&format!("Authorization: Bearer {token}")]).await
}

async fn ping(server: &Server, token: &str) -> u16 {
    let body = Dialect::Unversioned.request("1", "ping", "");
    let bearer = format!("Bearer {token}");
    server
        .post_with(&[("authorization", &bearer)], body)
        .await
        .status
}

#[tokio::test]
async fn streams_of_a_client_are_limited() {
    let tokens = file("alice a-s3cret-of-16-chars\nbob b-s3cret-of-16-chars\n");
    let args = [
        "--token-file",
        tokens.to_str().unwrap(),
        "--stream-limit",
        "3",
    ];
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
    assert_eq!(ping(&server, "a-s3cret-of-16-chars").await, 200);
    drop(open.pop());
    wait_until("a stream is free again", async || {
        listen(&server, "a-s3cret-of-16-chars").await.1 == 200
    })
    .await;
}

#[tokio::test]
async fn changed_token_file_is_applied() {
    let tokens = file("alice a-s3cret-of-16-chars\nbob b-s3cret-of-16-chars\n");
    let args = ["--token-file", tokens.to_str().unwrap()];
    let server = Server::with_args("mcp-conformance", &args, &[]).await;
    let (mut alice, _) = listen(&server, "a-s3cret-of-16-chars").await;
    let (mut bob, _) = listen(&server, "b-s3cret-of-16-chars").await;
    assert_eq!(ping(&server, "c-s3cret-of-16-chars").await, 401);

    // An unusable file changes nothing and is reported.
    std::fs::write(&tokens, "alice a-s3cret-of-16-chars too many words\n").unwrap();
    wait_until("the file is reported", async || {
        server.log().contains("the token file is unusable")
    })
    .await;
    assert_eq!(ping(&server, "b-s3cret-of-16-chars").await, 200);

    std::fs::write(
        &tokens,
        "alice a-s3cret-of-16-chars\ncarol c-s3cret-of-16-chars\n",
    )
    .unwrap();
    wait_until("bob is refused", async || {
        ping(&server, "b-s3cret-of-16-chars").await == 401
    })
    .await;
    assert_eq!(ping(&server, "c-s3cret-of-16-chars").await, 200);
    assert_eq!(ping(&server, "a-s3cret-of-16-chars").await, 200);
    // The streams of the removed token have ended, those of the others have not.
    tokio::time::timeout(Duration::from_secs(2), bob.rest())
        .await
        .unwrap();
    let more = tokio::time::timeout(Duration::from_millis(300), alice.rest());
    assert!(more.await.is_err(), "the stream of a valid token has ended");
    for secret in [
        "a-s3cret-of-16-chars",
        "b-s3cret-of-16-chars",
        "c-s3cret-of-16-chars",
    ] {
        assert!(!server.log().contains(secret));
    }
}

/// The token is checked again once the body is there.
#[tokio::test]
async fn request_that_outlives_its_token_is_refused() {
    let tokens = file("alice a-s3cret-of-16-chars\nbob b-s3cret-of-16-chars\n");
    let args = ["--token-file", tokens.to_str().unwrap()];
    let server = Server::with_args("mcp-conformance", &args, &[]).await;
    let body = Dialect::Unversioned.request("1", "ping", "");
    let (first, rest) = body.split_at(10);
    let mut wire = RawConnection::connect(&server.url).await;
    wire.send(format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer b-s3cret-of-16-chars\r\n\
         Content-Length: {}\r\n\r\n{first}",
        body.len()
    ))
    .await;
    std::fs::write(&tokens, "alice a-s3cret-of-16-chars\n").unwrap();
    wait_until("bob is refused", async || {
        ping(&server, "b-s3cret-of-16-chars").await == 401
    })
    .await;
    wire.send(rest).await;
    assert_eq!(wire.reply().await.unwrap().status, 401);
}

#[tokio::test]
async fn subscription_has_a_limited_number_of_resources() {
    let server = Server::start("mcp-conformance", &[]).await;
    let uris: Vec<String> = (0..1001).map(|n| format!("test://{n}")).collect();
    let members = format!(r#""notifications":{{"resourceSubscriptions":{uris:?}}}"#);
    let reply = server
        .request_as(Dialect::Modern, "subscriptions/listen", "", &members)
        .await;
    assert_eq!(reply.json()["error"]["code"], -32602, "{reply:?}");
}
