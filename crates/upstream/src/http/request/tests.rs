//! Requests to a peer on loopback with one scripted response.

use mcp_core::tool::ToolErrorKind::{Conflict, Timeout, Unauthorized, Unavailable, Upstream};
use mcp_core::tool::{ToolError, ToolErrorKind};
use reqwest::Url;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::http::{Client, FailureTexts};

static PROFILE: ServiceProfile = ServiceProfile {
    user_agent: "test/1",
    timeout: Duration::from_secs(60),
    max_body: 1999,
    wording: FailureTexts {
        unreachable: "Nothing listens at {address}.",
        timeout: "No answer from {address} within {seconds} s.",
        interrupted: "{address} hung up.",
        too_large: "More than {mib} MiB.",
        unreadable: "{address} is no such service: {cause}.",
        may_have_changed: "It may have happened.",
        has_changed: "It has happened.",
        no_credential: "Set KEY.",
        credential_unreadable: "KEY_FILE cannot be read.",
        credential_invalid: "KEY is odd.",
        statuses: &[
            (429..=429, Unavailable, "Busy. {retry}"),
            (500..=599, Upstream, "{address}: HTTP {status}."),
        ],
        refusal: |refusal, _| {
            let sentence: Value = refusal.json()?;
            let what = format!("{} {:?}", refusal.method(), refusal.path());
            let said = sentence.get("said")?.as_str()?.to_owned();
            Some((Conflict, format!("{what}: {said}")))
        },
        reason: |refusal| refusal.json(),
    },
};

/// A client of a port that is open until the listener is dropped.
async fn listening() -> (TcpListener, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://u:p@{}", listener.local_addr().unwrap());
    let client = Client::new(base.parse().unwrap(), &PROFILE);
    (listener, client.unwrap())
}

/// A client of a peer that answers every request with `answer`.
async fn client(answer: impl Into<Vec<u8>>) -> Client {
    let answer = answer.into();
    let (listener, client) = listening().await;
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(&answer).await;
        }
    });
    client
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
    let empty = client(http("204 No Content", "")).await;
    assert_eq!(empty.get([""; 0]).json::<()>().await.unwrap(), ());
    let halves = client(http(
        "200 OK",
        r#"["a\ud83d", "\ude00\\ud83d \ud83d\ude00 \uD83Dx"]"#,
    ));
    let texts = halves.await.get([""; 0]).json::<Vec<String>>().await;
    assert_eq!(
        texts.unwrap(),
        ["a\u{fffd}", "\u{fffd}\\ud83d 😀 \u{fffd}x"]
    );
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
        Upstream,
        "{address} is no such service: [0]: invalid type: integer `1`, expected a boolean at line 1 column 2. \
         It has happened.",
    );
}

#[tokio::test]
async fn lost_answers_to_changes_say_that_it_may_have_happened() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx";
    let client = client(cut).await;
    let ask = async |is_change: bool| {
        let request = match is_change {
            true => client.post(["a"]),
            false => client.get(["a"]),
        };
        request.send().await.err().unwrap()
    };
    let may_have = "{address} hung up. It may have happened.";
    let failure = ask(true).await;
    assert!(failure.is_ambiguous());
    check(failure, Unavailable, may_have);
    check(ask(false).await, Unavailable, "{address} hung up.");
    let test = ask(true).await.without_effect();
    check(test, Unavailable, "{address} hung up.");
}

/// The service closes each connection without a response, but not the fourth.
#[tokio::test]
async fn only_reading_is_sent_again_after_a_closed_connection() {
    let (listener, client) = listening().await;
    let service = async {
        for answer in ["", "", "", "HTTP/1.1 204 No Content\r\n\r\n"] {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    };
    let requests = async {
        for request in [client.post(["a"]), client.get(["a"]).once()] {
            let failure = request.send().await.err().unwrap();
            assert!(failure.is_ambiguous());
        }
        client.get(["a"]).send().await.unwrap();
    };
    tokio::join!(service, requests);
}

#[tokio::test]
async fn error_responses_get_the_text_of_their_status_or_body() {
    for (status, body, kind, message) in [
        (
            "429 X\r\nretry-after: 7",
            "",
            Unavailable,
            "Busy. Try again in 7 s.",
        ),
        ("429 X", "", Unavailable, "Busy. Try again in a while."),
        ("503 X", "<html>", Upstream, "{address}: HTTP 503."),
        (
            "302 X",
            "",
            Upstream,
            "{address} is no such service: HTTP 302.",
        ),
        ("409 X", r#"{"said":"no"}"#, Conflict, r#"GET ["a"]: no"#),
    ] {
        let client = client(http(status, body)).await;
        let failure = client.get(["a"]).send().await.err().unwrap();
        check(failure, kind, message);
    }
    let client = client(http("500 X", r#""the reason""#)).await;
    let failure = client.get(["a"]).send().await.err().unwrap();
    assert!(failure.is_transient() && !failure.is_ambiguous());
    let causes = ToolError::from(failure).causes();
    assert!(causes.contains("HTTP 500: the reason"));
    assert!(client.get(["a"]).send_any_status().await.is_ok());
}

#[tokio::test]
async fn refused_connection_means_not_sent() {
    let refused = "http://127.0.0.1:1".parse().unwrap();
    let client = Client::new(refused, &PROFILE).unwrap();
    let failure = client.get(["a"]).send().await.err().unwrap();
    assert!(failure.is_transient() && !failure.is_ambiguous());
    check(failure, Unavailable, "Nothing listens at {address}.");
}

#[tokio::test]
async fn silent_peer_causes_a_timeout() {
    // The kernel accepts the connection, and no process reads from it.
    let (_silent, client) = listening().await;
    let request = client.get(["a"]).timeout(Duration::from_millis(500));
    let failure = request.send().await.err().unwrap();
    assert!(failure.is_timeout() && failure.is_ambiguous());
    check(failure, Timeout, "No answer from {address} within 0 s.");
}

#[tokio::test]
async fn credential_takes_the_place_of_the_user_in_the_address() {
    let (listener, client) = listening().await;
    let peer = tokio::spawn(async move {
        let mut heads = Vec::new();
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap();
            head.truncate(read);
            heads.push(String::from_utf8(head).unwrap().to_ascii_lowercase());
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        heads
    });
    let request = || client.get(["x"]);
    let token = || Ok(Some("Bearer t".to_owned()));
    for request in [
        request(),
        request().with(|request| request.basic_auth("a", Some("b"))),
        request().credential("authorization", token()),
    ] {
        request.send().await.unwrap();
    }
    // `u:p` and `a:b` in base64, in lower case.
    let expected = ["basic dtpw", "basic ytpi", "bearer t"];
    for (head, expected) in peer.await.unwrap().iter().zip(expected) {
        let lines = head
            .lines()
            .filter_map(|line| line.strip_prefix("authorization: "));
        assert_eq!(lines.collect::<Vec<_>>(), [expected]);
    }
}

#[tokio::test]
async fn missing_credentials_fail_before_anything_is_sent() {
    let client = client(http("401 X", "")).await;
    let get = || client.get(["a"]);
    let missing = get().required_credential("k", Ok(None));
    let unreadable = get().credential("k", Err(io::Error::other("gone")));
    let invalid = get().credential("k", Ok(Some("a\nb".into())));
    for (request, message) in [
        (missing, "Set KEY."),
        (unreadable, "KEY_FILE cannot be read."),
        (invalid, "KEY is odd."),
    ] {
        check(request.send().await.err().unwrap(), Unauthorized, message);
    }
    for (key, sent) in [(None, false), (Some("secret".to_owned()), true)] {
        let request = client.get(["a"]).credential("k", Ok(key));
        let failure = request.send().await.err().unwrap();
        assert_eq!(failure.refusal().unwrap().has_credential(), sent);
        assert!(!format!("{failure:?}").contains("secret"));
    }
}

#[tokio::test]
async fn urls_without_a_host_are_rejected() {
    for url in ["unix:/run/x", "file:///x", "ftp://h"] {
        let client = Client::new(Url::parse(url).unwrap(), &PROFILE);
        assert!(client.is_err(), "{url}");
    }
}
