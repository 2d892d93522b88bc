//! Failures over HTTP and their errors.

use std::time::Duration;

use mcp_client::{CallerId, Client, Endpoint, Error, Options};
use serde_json::json;

use crate::client_info;
use crate::recorder::recorder;
use crate::server::*;

/// The error of a request to a server that always answers with `reply`.
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
    assert_error!(error, Error::Protocol { .. });
    assert!(error.to_string().contains(says), "{error}");
}

#[tokio::test]
async fn rpc_errors_are_typed_and_their_text_is_not_shown() {
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
async fn http_errors_keep_the_rpc_error_of_their_body() {
    let error = failure(|_| {
        let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":42900,"message":"s3cret"}}"#;
        let reply = reply(429, "application/json", body);
        with_header(reply, "retry-after", "7")
    })
    .await;
    assert_eq!(error.rpc().unwrap().code, 42900);
    let seven = Some(Duration::from_secs(7));
    assert_error!(error, Error::Http { status: 429, retry_after, .. } if retry_after == seven);
    let error = failure(|_| reply(502, "text/html", "<p>s3cret")).await;
    assert_error!(
        error,
        Error::Http {
            status: 502,
            error: None,
            ..
        }
    );
    let error = failure(|_| reply(404, "text/plain", "")).await;
    assert_error!(error, Error::Http { status: 404, .. });
}

#[tokio::test]
async fn invalid_responses_are_protocol_errors() {
    let accepted = failure(|_| accepted()).await;
    assert_protocol(&accepted, "without answering");
    let html = failure(|_| reply(200, "text/html", "<p>s3cret")).await;
    assert_protocol(&html, "not a JSON-RPC message");
    let other = failure(|_| json(r#"{"jsonrpc":"2.0","id":99,"result":"s3cret"}"#)).await;
    assert_protocol(&other, "another request");
    let error = failure(|_| json(r#"{"jsonrpc":"2.0","id":1,"error":"s3cret"}"#)).await;
    assert_protocol(&error, "error object");
    let gzip = |_: &Received| with_header(json("\x1f\x08s3cret"), "content-encoding", "gzip");
    assert_protocol(&failure(gzip).await, "Content-Encoding \"gzip\"");
    let large = |_: &Received| with_header(json("{}"), "x-large", &"s3cret".repeat(100_000));
    assert_protocol(&failure(large).await, "headers of its answer are too large");
}

/// Python writes them; `1e400` is JSON.
#[tokio::test]
async fn answer_with_invalid_json_fails_its_request_at_once() {
    for (value, fault) in [
        ("NaN", "NaN is not a JSON value"),
        ("[1, -Infinity]", "-Infinity is not a JSON value"),
        ("{\"s3cret\": 01}", "invalid number at line 1"),
    ] {
        for is_stream in [false, true] {
            let error = failure(move |request| match is_stream {
                false => json(answer(request, value)),
                true => open_events([event(answer(request, value))]),
            })
            .await;
            assert_error!(error, Error::InvalidAnswer { .. });
            assert!(error.to_string().contains(fault), "{error}");
            assert!(!error.is_transport_failure() && !error.was_not_sent());
        }
    }
    let server = Server::start(|request| json(answer(request, "1e400"))).await;
    assert_eq!(
        server.client().request("m", &()).await.unwrap().get(),
        "1e400"
    );
}

#[tokio::test]
async fn unknown_revision_of_the_server_is_an_error() {
    let hello = r#"{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{}}"#;
    let server = Server::start(move |request| result(request, hello)).await;
    let error = server
        .client()
        .initialize(&client_info())
        .await
        .unwrap_err();
    assert_protocol(&error, "protocol version");
}

#[tokio::test]
async fn messages_over_the_limit_are_errors() {
    fn long(request: &Received) -> String {
        answer(request, &format!(r#""{}""#, "s3cret".repeat(1000)))
    }
    let known = |request: &Received| json(long(request));
    let chunked = |request: &Received| {
        let reply = events([long(request), String::new()]);
        with_header(reply, "content-type", "application/json")
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
async fn redirects_are_not_followed() {
    let mut elsewhere = Server::start(|request| result(request, "1")).await;
    let location = elsewhere.url.clone();
    for status in [301, 302, 303, 307, 308] {
        let location = location.clone();
        let error = failure(move |_| {
            let reply = reply(status, "text/plain", "");
            with_header(reply, "location", &location)
        })
        .await;
        assert_error!(error, Error::Http { status: s, .. } if s == status);
        assert!(error.to_string().contains("not followed"), "{error}");
    }
    assert!(elsewhere.nothing_received());
}

#[tokio::test]
async fn refused_connection_means_not_sent() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/s3cret", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::http(Endpoint::new(&url).unwrap()).unwrap();
    let error = client.request("m", &()).await.unwrap_err();
    assert_error!(error, Error::Unreachable { .. });
    assert!(error.was_not_sent());
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[tokio::test]
async fn broken_stream_without_ids_has_an_unknown_outcome() {
    let error = failure(|_| events([event(r#"{"jsonrpc":"2.0","method":"n"}"#)])).await;
    assert_error!(error, Error::Closed { .. });
    assert!(!error.was_not_sent());
}

#[tokio::test]
async fn timeout_cancels_the_request_at_the_server() {
    let mut server = Server::start(with_session(|_| silence())).await;
    let client = server.client();
    client.initialize(&client_info()).await.unwrap();
    let options = Options::default().timeout(Duration::from_millis(50));
    let error = client.request_with("slow", &(), options).await.unwrap_err();
    assert_error!(error, Error::Timeout { .. });
    let cancelled = server.next_with("notifications/cancelled").await;
    assert_eq!(cancelled.json()["params"]["requestId"], 2);
    assert_eq!(cancelled.header("mcp-session-id"), Some("s1"));
}

#[tokio::test]
async fn dropped_request_is_cancelled_at_the_server() {
    let mut server = Server::start(with_session(|_| silence())).await;
    let client = server.client();
    client.initialize(&client_info()).await.unwrap();
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
async fn handshake_is_never_cancelled() {
    let mut server = Server::start(|_| silence()).await;
    let client = Client::builder()
        .connect_timeout(Duration::from_millis(50))
        .http(server.endpoint());
    let error = client
        .unwrap()
        .initialize(&client_info())
        .await
        .unwrap_err();
    assert_error!(error, Error::Timeout { .. });
    assert_eq!(server.next().await.rpc(), "initialize");
    // All spawned tasks have been polled.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(server.nothing_received());
}

#[tokio::test]
async fn endless_list_is_an_error() {
    let server =
        Server::start(|request| result(request, r#"{"tools":[],"nextCursor":"again"}"#)).await;
    let error = server.client().list_tools().await.unwrap_err();
    assert_protocol(&error, "does not end");
}

#[tokio::test]
async fn invalid_messages_in_a_stream_are_skipped_and_counted() {
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

/// A proxy that has waited long enough answers in the server's place: the server may still ask for that call.
#[tokio::test]
async fn question_after_the_answer_of_a_proxy_reaches_no_other_caller() {
    let question = r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#;
    let mut server = Server::start(with_session(move |request| {
        if request.method == http::Method::GET {
            open_events([event(question)])
        } else if request.body.contains("slow") {
            reply(504, "text/html", "<h1>504 Gateway Time-out</h1>")
        } else if request.body.contains("waits") {
            silence()
        } else {
            accepted()
        }
    }))
    .await;
    let client = server.client();
    client.initialize(&client_info()).await.unwrap();
    let (handler, mut seen) = recorder(Some(json!({"roots": []})));
    let call = async |name: &str, caller: u64| {
        let options = Options::default()
            .handler(handler.clone())
            .caller(CallerId::Number(caller));
        let params = json!({"name": name, "arguments": {}});
        client.request_with("tools/call", &params, options).await
    };
    assert!(call("slow", 1).await.is_err());
    let asked = async {
        server.next_with("waits").await;
        let stream = client.listen(&json!({})).await.unwrap();
        tokio::select! {
            ended = stream.closed() => panic!("{ended:?}"),
            answer = server.next_with(r#""id":"q""#) => answer.json(),
        }
    };
    tokio::select! {
        ended = call("waits", 2) => panic!("{ended:?}"),
        answer = asked => {
            let refusal = answer["error"]["message"].as_str().unwrap();
            assert!(refusal.contains("several callers"), "{answer}");
            assert!(seen.try_recv().is_err());
        }
    }
}
