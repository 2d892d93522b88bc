//! What goes wrong over HTTP, and how it is told.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use mcp_client::{Client, ClientInfo, Endpoint, Error, Options};
use serde_json::json;

use crate::server::*;

fn who() -> ClientInfo {
    ClientInfo::new("test", "1")
}

/// Sends one request to a server that always answers so.
async fn failure(reply: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Error {
    let server = Server::start(reply).await;
    let error = server.client().request("m", &()).await.unwrap_err();
    for text in [error.to_string(), format!("{error:#}")] {
        assert!(!text.contains("s3cret"), "{text}");
    }
    error
}

#[track_caller]
fn assert_protocol(error: &Error, says: &str) {
    assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
    assert!(error.to_string().contains(says), "{error}");
}

#[tokio::test]
async fn an_rpc_error_is_typed_and_its_text_stays_out_of_ours() {
    let error = failure(|request| {
        let id = &request.json()["id"];
        let error = json!({"code": -32602, "message": "s3cret", "data": {"kind": "x"}});
        json(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string())
    })
    .await;
    let Error::Rpc(rpc) = &error else {
        panic!("{error:?}")
    };
    assert_eq!((rpc.code, rpc.message.as_str()), (-32602, "s3cret"));
    assert_eq!(rpc.data.as_ref().unwrap().get(), r#"{"kind":"x"}"#);
}

#[tokio::test]
async fn a_status_keeps_the_rpc_error_of_its_body() {
    let error = failure(|_| {
        let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":42900,"message":"s3cret"}}"#;
        let mut reply = reply(429, "application/json", body);
        reply
            .headers_mut()
            .insert("retry-after", "7".parse().unwrap());
        reply
    })
    .await;
    assert_eq!(error.rpc().unwrap().code, 42900);
    let Error::Http {
        status: 429,
        retry_after: Some(after),
        ..
    } = error
    else {
        panic!("{error:?}")
    };
    assert_eq!(after, Duration::from_secs(7));
    let error = failure(|_| reply(502, "text/html", "<p>s3cret")).await;
    assert!(
        matches!(
            error,
            Error::Http {
                status: 502,
                error: None,
                ..
            }
        ),
        "{error:?}"
    );
    let error = failure(|_| reply(404, "text/plain", "")).await;
    assert!(
        matches!(error, Error::Http { status: 404, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn what_is_no_answer_is_a_fault_of_the_server() {
    let accepted = failure(|_| accepted()).await;
    assert_protocol(&accepted, "without answering");
    let html = failure(|_| reply(200, "text/html", "<p>s3cret")).await;
    assert_protocol(&html, "not a JSON-RPC message");
    let other = failure(|_| json(r#"{"jsonrpc":"2.0","id":99,"result":"s3cret"}"#)).await;
    assert_protocol(&other, "another request");
    let error = failure(|_| json(r#"{"jsonrpc":"2.0","id":1,"error":"s3cret"}"#)).await;
    assert_protocol(&error, "error object");
}

#[tokio::test]
async fn the_server_cannot_choose_a_revision_of_its_own() {
    let server = Server::start(|request| {
        result(
            request,
            r#"{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{}}"#,
        )
    })
    .await;
    let error = server.client().initialize(&who()).await.unwrap_err();
    assert_protocol(&error, "protocol version");
}

#[tokio::test]
async fn nothing_grows_past_the_limit() {
    fn long(request: &Received) -> String {
        answer(request, &format!(r#""{}""#, "s3cret".repeat(1000)))
    }
    let known = |request: &Received| json(long(request));
    let chunked = |request: &Received| {
        let mut reply = events([long(request), String::new()]);
        reply
            .headers_mut()
            .insert("content-type", "application/json".parse().unwrap());
        reply
    };
    let stream = |request: &Received| open_events([event(long(request))]);
    let answers: [fn(&Received) -> Reply; 3] = [known, chunked, stream];
    for answer in answers {
        let server = Server::start(answer).await;
        let client = Client::http(server.endpoint().max_message(1000)).unwrap();
        let error = client.request("m", &()).await.unwrap_err();
        assert_protocol(&error, "longer than 1000 bytes");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let mut elsewhere = Server::start(|request| result(request, "1")).await;
    let location = elsewhere.url.clone();
    for status in [301, 302, 303, 307, 308] {
        let location = location.clone();
        let error = failure(move |_| {
            let mut reply = reply(status, "text/plain", "");
            reply
                .headers_mut()
                .insert("location", location.parse().unwrap());
            reply
        })
        .await;
        assert!(
            matches!(error, Error::Http { status: s, .. } if s == status),
            "{error:?}"
        );
    }
    assert!(elsewhere.nothing_received());
}

#[tokio::test]
async fn nobody_listening_is_provably_not_sent() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/s3cret", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::http(Endpoint::new(&url).unwrap()).unwrap();
    let error = client.request("m", &()).await.unwrap_err();
    assert!(
        matches!(error, Error::Unreachable { .. }) && error.was_not_sent(),
        "{error:?}"
    );
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[tokio::test]
async fn a_cut_stream_without_ids_has_an_unknown_outcome() {
    let error = failure(|_| events([event(r#"{"jsonrpc":"2.0","method":"n"}"#)])).await;
    assert!(
        matches!(error, Error::Closed { .. }) && !error.was_not_sent(),
        "{error:?}"
    );
}

#[tokio::test]
async fn who_waits_in_vain_gives_up_and_tells_the_server() {
    let mut server = Server::start(with_session(|_| silence())).await;
    let client = server.client();
    client.initialize(&who()).await.unwrap();
    let options = Options::default().timeout(Duration::from_millis(50));
    let error = client.request_with("slow", &(), options).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    let cancelled = server.next_with("notifications/cancelled").await;
    assert_eq!(cancelled.json()["params"]["requestId"], 2);
    assert_eq!(cancelled.header("mcp-session-id"), Some("s1"));
}

#[tokio::test]
async fn a_dropped_request_is_cancelled_at_the_server() {
    let mut server = Server::start(with_session(|_| silence())).await;
    let client = server.client();
    client.initialize(&who()).await.unwrap();
    {
        let mut request = std::pin::pin!(client.request("slow", &()));
        tokio::select! {
            _ = &mut request => panic!("answered"),
            _ = server.next_with(r#""slow""#) => {}
        }
    }
    let cancelled = server.next_with("notifications/cancelled").await;
    assert_eq!(cancelled.json()["params"]["requestId"], 2);
}

#[tokio::test]
async fn the_handshake_is_never_cancelled() {
    let mut server = Server::start(|_| silence()).await;
    let client = Client::builder()
        .connect_timeout(Duration::from_millis(50))
        .http(server.endpoint());
    let error = client.unwrap().initialize(&who()).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    assert_eq!(server.next().await.rpc(), "initialize");
    // Whatever was spawned has had its turn.
    let mut turns = 0;
    poll_fn(|context| {
        turns += 1;
        context.waker().wake_by_ref();
        if turns < 100 {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    assert!(server.nothing_received());
}

#[tokio::test]
async fn a_list_of_tools_that_does_not_end_is_refused() {
    let server =
        Server::start(|request| result(request, r#"{"tools":[],"nextCursor":"again"}"#)).await;
    let error = server.client().list_tools().await.unwrap_err();
    assert_protocol(&error, "does not end");
}

#[tokio::test]
async fn what_is_no_message_in_a_stream_is_skipped_and_counted() {
    let server = Server::start(|request| {
        let other = event(r#"{"jsonrpc":"2.0","id":99,"result":"of another"}"#);
        events([
            event("hello"),
            other,
            event(answer(request, r#""mine""#)) + &event("bye"),
        ])
    })
    .await;
    let client = server.client();
    assert_eq!(client.request("m", &()).await.unwrap().get(), r#""mine""#);
    let counters = client.counters();
    assert_eq!(
        (counters.invalid_messages, counters.unmatched_responses),
        (1, 1)
    );
}
