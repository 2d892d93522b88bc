//! Requests against a peer on loopback that says one thing.

use mcp_core::tool::{ToolError, ToolErrorKind};
use reqwest::Url;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::http::{Client, FailureTexts};

static PROFILE: ServiceProfile = ServiceProfile {
    user_agent: "test/1",
    timeout: Duration::from_secs(5),
    max_body: 1 << 20,
    wording: FailureTexts {
        unreachable: "There is nobody at {address}.",
        timeout: "No answer from {address} within {seconds} s.",
        interrupted: "{address} hung up.",
        too_large: "More than {mib} MiB.",
        unreadable: "{address} is something else.",
        no_credential: "Set KEY.",
        credential_unreadable: "KEY_FILE cannot be read.",
        credential_invalid: "KEY is odd.",
        statuses: &[
            (429..=429, ToolErrorKind::Unavailable, "Busy. {retry}"),
            (
                500..=599,
                ToolErrorKind::Upstream,
                "{address}: HTTP {status}.",
            ),
        ],
        refusal: |refusal, _| {
            let sentence: Value = refusal.json()?;
            let what = format!("{} {:?}", refusal.method(), refusal.path());
            let said = sentence.get("said")?.as_str()?.to_owned();
            Some((ToolErrorKind::Conflict, format!("{what}: {said}")))
        },
        reason: |refusal| refusal.json(),
    },
};

/// A client of a peer that answers every request with this.
async fn client(answer: impl Into<Vec<u8>>) -> Client {
    let answer = answer.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://u:p@{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(&answer).await;
        }
    });
    Client::new(base.parse().unwrap(), &PROFILE).unwrap()
}

fn http(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[track_caller]
fn check(failure: HttpFailure, kind: ToolErrorKind, message: &str) {
    let address = failure.address().to_owned();
    assert!(!address.contains('@'), "{address}");
    let error = ToolError::from(failure);
    assert_eq!(error.message(), message.replace("{address}", &address));
    assert_eq!(error.kind(), kind);
}

#[tokio::test]
async fn answers_are_read_as_json() {
    let client = client(http("200 OK", "[1,2]")).await;
    let request = client.get(["a", "b c"]).query(&[("x", "&")]);
    assert_eq!(request.json::<Vec<u8>>().await.unwrap(), [1, 2]);
    let failure = client.post(["a"]).json::<Vec<bool>>().await.unwrap_err();
    let Fault::Unreadable(error) = failure.fault() else {
        panic!("{failure:?}");
    };
    assert!(error.to_string().starts_with("[0]: "), "{error}");
    check(
        failure,
        ToolErrorKind::Upstream,
        "{address} is something else.",
    );
}

#[tokio::test]
async fn empty_answers_are_null() {
    let client = client(http("204 No Content", "")).await;
    assert_eq!(client.get([""; 0]).json::<()>().await.unwrap(), ());
}

#[tokio::test]
async fn refusals_are_told_by_status_and_by_body() {
    for (status, body, kind, message) in [
        (
            "429 X\r\nretry-after: 7",
            "",
            ToolErrorKind::Unavailable,
            "Busy. Try again in 7 s.",
        ),
        (
            "429 X",
            "",
            ToolErrorKind::Unavailable,
            "Busy. Try again in a while.",
        ),
        (
            "503 X",
            "<html>",
            ToolErrorKind::Upstream,
            "{address}: HTTP 503.",
        ),
        (
            "302 X",
            "",
            ToolErrorKind::Upstream,
            "{address} is something else.",
        ),
        (
            "409 X",
            r#"{"said":"no"}"#,
            ToolErrorKind::Conflict,
            r#"GET ["a"]: no"#,
        ),
    ] {
        let client = client(http(status, body)).await;
        let failure = client.get(["a"]).send().await.err().unwrap();
        check(failure, kind, message);
    }
    let client = client(http("500 X", r#""the reason""#)).await;
    let failure = client.get(["a"]).send().await.err().unwrap();
    assert!(failure.is_transient() && !failure.is_ambiguous());
    assert!(
        ToolError::from(failure)
            .causes()
            .contains("HTTP 500: the reason")
    );
    assert!(client.get(["a"]).send_any_status().await.is_ok());
}

#[tokio::test]
async fn bodies_are_bounded_announced_or_not() {
    let long = "x".repeat(2000);
    for answer in [
        http("200 OK", &long),
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{long}"),
    ] {
        let client = client(answer).await;
        let failure = client.get(["a"]).max_body(1999).send().await.err().unwrap();
        check(failure, ToolErrorKind::Upstream, "More than 0 MiB.");
    }
}

#[tokio::test]
async fn broken_connections_are_told_apart() {
    let client = client("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx").await;
    let failure = client.get(["a"]).send().await.err().unwrap();
    assert!(failure.is_ambiguous());
    check(failure, ToolErrorKind::Unavailable, "{address} hung up.");

    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let client = Client::new(base.parse().unwrap(), &PROFILE).unwrap();
    let failure = client.get(["a"]).send().await.err().unwrap();
    assert!(failure.is_transient() && !failure.is_ambiguous());
    check(
        failure,
        ToolErrorKind::Unavailable,
        "There is nobody at {address}.",
    );
}

#[tokio::test]
async fn silence_ends_in_a_timeout() {
    // The system accepts the connection, and nobody reads from it.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", silent.local_addr().unwrap());
    let client = Client::new(base.parse().unwrap(), &PROFILE).unwrap();
    let request = client.get(["a"]).timeout(Duration::from_millis(50));
    let failure = request.send().await.err().unwrap();
    assert!(failure.is_timeout() && failure.is_ambiguous());
    check(
        failure,
        ToolErrorKind::Timeout,
        "No answer from {address} within 0 s.",
    );
}

#[tokio::test]
async fn credentials_are_needed_before_anything_is_sent() {
    let client = client(http("401 X", "")).await;
    let gone = || Err(io::Error::other("gone"));
    for (request, message) in [
        (
            client.get(["a"]).required_credential("k", Ok(None)),
            "Set KEY.",
        ),
        (
            client.get(["a"]).credential("k", gone()),
            "KEY_FILE cannot be read.",
        ),
        (
            client.get(["a"]).credential("k", Ok(Some("a\nb".into()))),
            "KEY is odd.",
        ),
    ] {
        check(
            request.send().await.err().unwrap(),
            ToolErrorKind::Unauthorized,
            message,
        );
    }
    for (key, sent) in [(None, false), (Some("secret".to_owned()), true)] {
        let request = client.get(["a"]).credential("k", Ok(key));
        let failure = request.send().await.err().unwrap();
        assert_eq!(failure.refusal().unwrap().has_credential(), sent);
        assert!(!format!("{failure:?}").contains("secret"));
    }
}

#[tokio::test]
async fn only_hosts_have_clients() {
    for url in ["unix:/run/x", "file:///x", "ftp://h"] {
        assert!(
            Client::new(Url::parse(url).unwrap(), &PROFILE).is_err(),
            "{url}"
        );
    }
}
