//! Open streams: their limit per client, and their end when a token is removed.

use super::subscribe;
use crate::auth::{self, file};
use crate::harness::{Dialect, RawConnection, Server, wait_until};

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

/// The token is checked again once the body is there.
#[tokio::test]
async fn request_that_outlives_its_token_is_refused() {
    let tokens = file("alice a-s3cret-of-16-chars\nbob b-s3cret-of-16-chars\n");
    let args = ["--token-file", tokens.to_str().unwrap()];
    let server = Server::with_args("mcp-conformance", &args, &[]).await;
    let body = Dialect::Unversioned.request("1", "ping", "");
    let (first, rest) = body.split_at(10);
    let begun = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer b-s3cret-of-16-chars\r\n\
         Content-Length: {}\r\n\r\n{first}",
        body.len()
    );
    let mut wire = RawConnection::sending(&server.url, begun).await;
    std::fs::write(&tokens, "alice a-s3cret-of-16-chars\n").unwrap();
    wait_until("bob is refused", async || {
        auth::status(&server, "b-s3cret-of-16-chars").await == 401
    })
    .await;
    wire.send(rest).await;
    assert_eq!(wire.reply().await.unwrap().status, 401);
}
