//! Sessions that a server loses, and that are opened again.

use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_client::{Client, Error};
use serde_json::json;

use crate::client_info;
use crate::recorder::recorder;
use crate::server::*;

/// Opens a new session at every handshake, and loses all open ones at each of the first `restarts`
/// calls.
fn losing_sessions(restarts: usize) -> impl Fn(&Received) -> Reply + Send + Sync + 'static {
    let [sessions, calls, oldest] = [0; 3].map(AtomicUsize::new);
    move |request| match request.rpc().as_str() {
        "initialize" => {
            let id = sessions.fetch_add(1, Ordering::SeqCst).to_string();
            with_header(result(request, HELLO), "mcp-session-id", &id)
        }
        method if method.starts_with("notifications/") => accepted(),
        _ => {
            let lost = || reply(404, "application/json", r#"{"error":"Session not found"}"#);
            let Some(session) = request.header("mcp-session-id") else {
                return lost();
            };
            let session: usize = session.parse().unwrap();
            if session < oldest.load(Ordering::SeqCst) {
                return lost();
            }
            if calls.fetch_add(1, Ordering::SeqCst) < restarts {
                oldest.store(session + 1, Ordering::SeqCst);
                return lost();
            }
            result(request, &session.to_string())
        }
    }
}

#[tokio::test]
async fn lost_session_is_renewed_and_the_request_repeated() {
    let server = Server::start(losing_sessions(1)).await;
    let (handler, mut seen) = recorder(None);
    let client = Client::builder().handler(handler).http(server.endpoint());
    let client = client.unwrap();
    client.connect(&client_info()).await.unwrap();
    let answer = client.request("m", &()).await.unwrap();
    assert_eq!(answer.get(), "1");
    let renewed = ("renewed", "2025-06-18".to_owned(), json!(null));
    assert_eq!(seen.recv().await.unwrap(), renewed);
}

#[tokio::test]
async fn concurrent_requests_renew_a_session_once() {
    let mut server = Server::start(losing_sessions(1)).await;
    let client = server.client();
    client.initialize(&client_info()).await.unwrap();
    let requests = (0..50).map(|_| client.request("m", &()));
    for answer in futures_util::future::join_all(requests).await {
        assert_eq!(answer.unwrap().get(), "1");
    }
    client.request("last", &()).await.unwrap();
    let mut handshakes = 0;
    loop {
        match server.next().await.rpc().as_str() {
            "initialize" => handshakes += 1,
            "last" => break,
            _ => {}
        }
    }
    assert_eq!(handshakes, 2);
}

#[tokio::test]
async fn session_that_is_lost_twice_is_an_error() {
    let server = Server::start(losing_sessions(2)).await;
    let client = server.client();
    client.initialize(&client_info()).await.unwrap();
    let error = client.request("m", &()).await.unwrap_err();
    assert_error!(error, Error::SessionLost { .. });
    assert!(error.was_not_sent());
    client.request("m", &()).await.unwrap();
}

#[tokio::test]
async fn status_400_about_the_session_means_a_lost_session() {
    let calls = AtomicUsize::new(0);
    let server = Server::start(with_session(move |request| {
        match calls.fetch_add(1, Ordering::Relaxed) {
            0 => {
                let sentence = "Bad Request: No valid session ID provided";
                let error = json!({"code": -32000, "message": sentence});
                let body = json!({"jsonrpc": "2.0", "error": error, "id": null});
                reply(400, "application/json", body.to_string())
            }
            _ => result(request, "{}"),
        }
    }))
    .await;
    let client = server.client();
    client.initialize(&client_info()).await.unwrap();
    client.request("m", &()).await.unwrap();
}

#[tokio::test]
async fn status_404_about_the_method_is_the_response() {
    let mut server = Server::start(with_session(|_| {
        let error = json!({"code": -32601, "message": "Method not found"});
        let body = json!({"jsonrpc": "2.0", "error": error, "id": 2});
        reply(404, "application/json", body.to_string())
    }))
    .await;
    let client = server.client();
    client.initialize(&client_info()).await.unwrap();
    let error = client.request("m", &()).await.unwrap_err();
    assert_eq!(error.rpc().unwrap().code, -32601);
    for expected in ["initialize", "notifications/initialized", "m"] {
        assert_eq!(server.next().await.rpc(), expected);
    }
    assert!(server.nothing_received());
}
