//! Tokens that a command adds, lists and revokes while a server runs.

use super::{FIXTURE, file, ping, status};
use crate::commands::{Ended, run};
use crate::harness::{RawConnection, Server, assert_contains, post, wait_until};
use crate::listener::subscribe;

/// Runs `mcp-conformance token` with these arguments and the file.
fn token(arguments: &[&str], file: &str) -> Ended {
    let args = [&["token"], arguments, &["--token-file", file]].concat();
    run(FIXTURE, &args, &[])
}

/// Adds a token and returns it.
fn add(arguments: &[&str], file: &str) -> String {
    let ended = token(&[&["add"], arguments].concat(), file);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended.stdout.trim().to_owned()
}

#[tokio::test]
async fn token_is_added_listed_and_revoked_while_the_server_runs() {
    let path = file("# ours\nada a-s3cret-of-16-chars\n");
    let path = path.to_str().unwrap();
    let server = Server::with_args(FIXTURE, &["--token-file", path], &[]).await;
    let bob = add(&["bob", "--expires", "30d"], path);
    wait_until("bob is known", async || status(&server, &bob).await == 200).await;
    let listed = token(&["list"], path).stdout;
    assert!(
        listed.starts_with("ada plain\nbob hashed expires="),
        "{listed}"
    );
    assert!(!listed.contains("s3cret") && !listed.contains(&bob));
    // A file that cannot be used changes nothing, and is told.
    let usable = std::fs::read_to_string(path).unwrap();
    std::fs::write(path, format!("{usable}too many words here")).unwrap();
    server.wait_for_log("the token file is unusable").await;
    assert_eq!(status(&server, &bob).await, 200);
    std::fs::write(path, usable).unwrap();
    let again = token(&["add", "bob"], path);
    assert_eq!((again.code, &*again.stdout), (1, ""));

    let header = format!("Authorization: Bearer {bob}");
    let (mut stream, opened) = subscribe(&server.url, &[&header]).await;
    assert_eq!(opened, 200);
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let request = post(&[&header], ping);
    let (begun, rest) = request.split_at(request.len() - 10);
    let mut wire = RawConnection::sending(&server.url, begun).await;
    assert!(token(&["revoke", "bob"], path).code == 0);
    stream.rest().await;
    assert_eq!(status(&server, &bob).await, 401);
    // The token is checked again once the body is there.
    wire.send(rest).await;
    assert_eq!(wire.reply().await.unwrap().status, 401);
    // The last one, too: then no client is admitted.
    assert!(token(&["revoke", "ada"], path).code == 0);
    wait_until("ada is refused", async || {
        status(&server, "a-s3cret-of-16-chars").await == 401
    })
    .await;
    assert_eq!(server.post(ping).await.status, 401);
    assert_eq!(token(&["revoke", "ada"], path).code, 1);
    // Nor is any after a restart.
    let restarted = Server::with_args(FIXTURE, &["--token-file", path], &[]).await;
    assert_eq!(status(&restarted, "a-s3cret-of-16-chars").await, 401);
    assert!(!server.log().contains(&bob));
}

#[tokio::test]
async fn streams_of_a_token_end_with_it() {
    let path = file("ada a-s3cret-of-16-chars\n");
    let path = path.to_str().unwrap();
    let oncall = add(&["oncall", "--role", "oncall"], path);
    // On a busy machine a short one may end before its stream is open.
    let mut lifetimes = ["4s", "30s", "100s"].into_iter();
    let (server, bob, mut stream) = loop {
        let lifetime = lifetimes.next().expect("no stream was open in time");
        let bob = add(&[lifetime, "--expires", lifetime], path);
        let server = Server::with_args(FIXTURE, &["--token-file", path], &[]).await;
        let header = format!("Authorization: Bearer {bob}");
        let (stream, opened) = subscribe(&server.url, &[&header]).await;
        if opened == 200 {
            break (server, bob, stream);
        }
    };
    stream.rest().await;
    let expired = ping(&server, &format!("Bearer {bob}")).await;
    let unknown = ping(&server, "Bearer unknown").await;
    assert_eq!((expired.status, expired.body), (401, unknown.body));
    assert_eq!(status(&server, "a-s3cret-of-16-chars").await, 200);
    // A token with a role is refused where there are no roles.
    let refused = ping(&server, &format!("Bearer {oncall}")).await;
    assert_eq!(refused.status, 403);
    assert_contains(&refused.body, "has a role");
}
