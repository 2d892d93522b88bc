//! Requests, streams, lists, sessions, idle connections and failures over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use mcp_client::{CallerId, Client, Endpoint, Error, Options};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::client_info;
use crate::server::*;

#[tokio::test]
async fn unversioned_request_needs_no_handshake_and_keeps_its_bytes() {
    let big = r#"{"n": 123456789012345678901234567890, "e":1e400,"s":"\u00e4"}"#;
    let mut server =
        Server::start(move |_| json(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{big}}}"#))).await;
    let endpoint = server.endpoint().bearer("s3cret").unwrap();
    let endpoint = endpoint.header("Host", "n8n.example").unwrap();
    let client = builder().http(endpoint).unwrap();
    let params = RawValue::from_string(big.to_owned()).unwrap();
    let answer = client.request("mcp.listTools", &params).await.unwrap();
    assert_eq!(answer.get(), big);

    let received = server.next().await;
    assert_eq!(
        received.body,
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"mcp.listTools","params":{big}}}"#)
    );
    for (name, value) in [
        ("authorization", Some("Bearer s3cret")),
        ("host", Some("n8n.example")),
        ("accept", Some("application/json, text/event-stream")),
        ("content-type", Some("application/json")),
        ("mcp-protocol-version", None),
        ("mcp-session-id", None),
    ] {
        assert_eq!(received.header(name), value, "{name}");
    }
}

/// The headers of one request, in both transports: the next request does not have them.
#[tokio::test]
async fn headers_of_a_request_are_sent_with_it_alone() {
    for is_sse in [false, true] {
        let mut server = Server::start(|request| match request.method {
            Method::GET => open_events(["event: endpoint\ndata: /post\n\n".to_owned()]),
            _ => result(request, "{}"),
        })
        .await;
        let client = match is_sse {
            true => builder().sse(server.endpoint()).unwrap(),
            false => server.client(),
        };
        for (method, principal) in [("tools/list", Some("alice")), ("prompts/list", None)] {
            let header =
                principal.map(|name| ("x-principal".parse().unwrap(), name.parse().unwrap()));
            let options = Options::default().headers(header.into_iter().collect());
            let client = client.clone();
            // A server with the older transport answers in its stream, here never.
            let request =
                tokio::spawn(async move { client.request_with(method, &(), options).await });
            let received = server.next_with(method).await;
            request.abort();
            assert_eq!(received.header("x-principal"), principal, "{method}");
        }
    }
}

#[tokio::test]
async fn handshake_opens_a_session_and_close_ends_it() {
    let mut server = Server::start(with_session(|request| match request.method {
        Method::DELETE => reply(200, "text/plain", ""),
        _ => result(request, "{}"),
    }))
    .await;
    let client = server.client();
    let info = client.initialize(&client_info()).await.unwrap();
    assert_eq!(info.protocol_version, "2025-06-18");
    assert_eq!(info.instructions.as_deref(), Some("be kind"));
    client.request("ping", &()).await.unwrap();
    client.close().await;

    let hello = server.next().await;
    assert_eq!(
        hello.json()["params"],
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})
    );
    assert_eq!(hello.header("mcp-session-id"), None);
    for expected in ["notifications/initialized", "ping", ""] {
        let received = server.next().await;
        assert_eq!(received.rpc(), expected);
        assert_eq!(received.header("mcp-session-id"), Some("s1"));
        assert_eq!(received.header("mcp-protocol-version"), Some("2025-06-18"));
        assert_eq!(received.method == Method::DELETE, expected.is_empty());
    }
}

#[tokio::test]
async fn stream_carries_progress_messages_and_the_response() {
    let mut server = Server::start(|request| match request.rpc().as_str() {
        "tools/call" => {
            let token = &request.json()["params"]["_meta"]["progressToken"];
            let progress = |n: u32| {
                event(json!({"jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": n, "total": 2, "message": "step"}}))
            };
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}});
            let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
            let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}});
            let done = answer(
                request,
                r#"{"content":[{"type":"text","text":"a"},{"type":"new","x":1},{"type":"text","text":"b"}],"structuredContent":{"n":1e400}}"#,
            );
            events([
                "id: 1\ndata:\n\n".to_owned(),
                progress(1) + &event(log),
                event(ping),
                event(ask) + &progress(2),
                ": still here\n\n".to_owned() + &event(done),
            ])
        }
        _ => accepted(),
    })
    .await;
    let (handler, mut seen) = recorder(Some(json!({})));
    let client = builder().handler(handler).http(server.endpoint());
    let client = client.unwrap();
    let (reports, mut progress) = mpsc::channel(8);
    let options = Options::default().progress(reports);
    let result = client.call_tool_with("t", &json!({"a": 1}), options).await;
    let result = result.unwrap();
    assert_eq!(result.text(), "a\nb");
    assert_eq!(result.content[1].kind, "new");
    assert_eq!(result.structured_content.unwrap().get(), r#"{"n":1e400}"#);
    assert!(!result.is_error);

    for n in [1.0, 2.0] {
        let report = progress.recv().await.unwrap();
        assert_eq!((report.progress, report.total), (n, Some(2.0)));
        assert!(report.raw.get().contains("progressToken"));
    }
    assert!(progress.recv().await.is_none());
    let (kind, method, params) = seen.recv().await.unwrap();
    assert_eq!((kind, &*method), ("notification", "notifications/message"));
    assert_eq!(params, json!({"data": 1}));
    let (kind, method, _) = seen.recv().await.unwrap();
    assert_eq!((kind, &*method), ("request", "sampling/createMessage"));

    let pong = server.next_with(r#""id":"p""#).await.json();
    assert_eq!(pong, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    let reply = server.next_with(r#""id":1,"result""#).await.json();
    assert_eq!(reply["result"], json!({}));
}

#[tokio::test]
async fn requests_share_a_connection() {
    let count = AtomicUsize::new(0);
    let server = Server::start(
        move |request| match count.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => result(request, "1"),
            _ => events([event(answer(request, "1"))]),
        },
    )
    .await;
    let client = server.client();
    for _ in 0..20 {
        client.request("m", &()).await.unwrap();
        tokio::task::yield_now().await;
    }
    let connections = server.connections.load(Ordering::Relaxed);
    assert!(connections <= 3, "{connections} connections");
}

#[tokio::test]
async fn all_pages_of_the_tools_are_read() {
    let server = Server::start(|request| {
        let page = match request.json()["params"]["cursor"].as_str() {
            None => r#"{"tools":[{"name":"a","description":"A","inputSchema":{"type":"object"}}],"nextCursor":"2"}"#,
            Some("2") => r#"{"tools":[],"nextCursor":"3"}"#,
            _ => r#"{"tools":[{"name":"b","inputSchema":{},"annotations":{"readOnlyHint":true},"new":1e400}]}"#,
        };
        result(request, page)
    })
    .await;
    let tools = server.client().list_tools().await.unwrap();
    assert_eq!(tools.len(), 2);
    assert_eq!(tools[0].description.as_deref(), Some("A"));
    let annotations = tools[1].annotations.as_ref().unwrap();
    assert_eq!(annotations["readOnlyHint"], true);
    let raw = tools[1].raw.get();
    assert!(raw.ends_with(r#""new":1e400}"#), "{raw}");
}

/// The first attempts to resume it fail, in several ways.
#[tokio::test]
async fn stream_that_ends_early_is_resumed() {
    let attempts = AtomicUsize::new(0);
    let mut server = Server::start(move |request| match request.method {
        Method::GET => match attempts.fetch_add(1, Ordering::Relaxed) {
            0 => reply(503, "text/plain", ""),
            1 => events([String::new()]),
            _ => {
                let done = r#"{"jsonrpc":"2.0","id":1,"result":"late"}"#;
                events([event(done)])
            }
        },
        _ => events(["retry: 60\nid: e-7\ndata:\n\ndata: half".to_owned()]),
    })
    .await;
    let answer = server.client().request("m", &()).await.unwrap();
    assert_eq!(answer.get(), r#""late""#);
    server.next().await;
    for _ in 0..3 {
        let resumed = server.next().await;
        assert_eq!(resumed.method, Method::GET);
        assert_eq!(resumed.header("last-event-id"), Some("e-7"));
        assert_eq!(resumed.header("accept"), Some("text/event-stream"));
    }
}

#[tokio::test]
async fn stream_that_cannot_be_resumed_ends_the_request() {
    for (status, attempts) in [(503, 5), (405, 1)] {
        let mut server = Server::start(move |request| match request.method {
            Method::GET => reply(status, "text/plain", ""),
            _ => events(["retry: 0\nid: e-7\ndata:\n\n".to_owned()]),
        })
        .await;
        let error = server.client().request("m", &()).await.unwrap_err();
        assert_error!(error, mcp_client::Error::Closed { .. });
        for _ in 0..=attempts {
            server.next().await;
        }
        assert!(server.nothing_received(), "{status}");
    }
}

/// A server that answers one request per connection and then calls `then`; counts the connections.
async fn server<F: Future<Output = ()> + Send>(
    then: impl Fn(TcpStream) -> F + Clone + Send + Sync + 'static,
) -> (Client, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            let then = then.clone();
            tokio::spawn(async move {
                let body = request(&mut socket).await;
                let id: serde_json::Value = serde_json::from_str(&body).unwrap();
                let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id["id"]);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
                let reply = format!("{head}content-length: {}\r\n\r\n{answer}", answer.len());
                socket.write_all(reply.as_bytes()).await.unwrap();
                then(socket).await;
            });
        }
    });
    let client = builder().http(Endpoint::new(&url).unwrap());
    (client.unwrap(), connections)
}

/// The body of a request that comes in one piece or more.
async fn request(socket: &mut TcpStream) -> String {
    let mut text = String::new();
    loop {
        let mut bytes = [0; 4096];
        let read = socket.read(&mut bytes).await.unwrap();
        text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && body.ends_with('}')
        {
            return body.to_owned();
        }
    }
}

#[tokio::test]
async fn connections_that_the_server_closes_fail_no_request() {
    let (client, connections) = server(async |socket| drop(socket)).await;
    for _ in 0..50 {
        client.request("m", &()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(connections.load(Ordering::Relaxed), 50);
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let (ended, mut end) = mpsc::channel(1);
    let (client, _) = server(move |mut socket| {
        let ended = ended.clone();
        async move {
            assert_eq!(socket.read(&mut [0]).await.unwrap(), 0);
            ended.send(()).await.unwrap();
        }
    })
    .await;
    client.request("m", &()).await.unwrap();
    let ended = timeout(Duration::from_secs(60), end.recv()).await;
    ended.unwrap().unwrap();
}

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
async fn lost_session_is_renewed_once_and_its_requests_repeated() {
    let mut server = Server::start(losing_sessions(1)).await;
    let (handler, mut seen) = recorder(None);
    let client = builder().handler(handler).http(server.endpoint());
    let client = client.unwrap();
    client.connect(&client_info()).await.unwrap();
    let requests = (0..50).map(|_| client.request("m", &()));
    for answer in futures_util::future::join_all(requests).await {
        assert_eq!(answer.unwrap().get(), "1");
    }
    let renewed = ("renewed", "2025-06-18".to_owned(), json!(null));
    assert_eq!(seen.recv().await.unwrap(), renewed);
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
    let (_server, client) = Server::connected(losing_sessions(2)).await;
    let error = client.request("m", &()).await.unwrap_err();
    assert_error!(error, Error::InvalidAnswer { .. });
    // A second repetition could be a second effect.
    assert!(!error.was_not_sent());
    client.request("m", &()).await.unwrap();
}

#[tokio::test]
async fn error_about_the_session_is_told_from_one_about_the_method() {
    for (status, code, sentence, is_lost) in [
        (
            400,
            -32000,
            "Bad Request: No valid session ID provided",
            true,
        ),
        (404, -32601, "Method not found", false),
    ] {
        let calls = AtomicUsize::new(0);
        let (mut server, client) = Server::connected(with_session(move |request| {
            match calls.fetch_add(1, Ordering::Relaxed) {
                0 => reply(status, "application/json", rpc_error("2", code, sentence)),
                _ => result(request, "{}"),
            }
        }))
        .await;
        let answer = client.request("m", &()).await;
        let expected = (!is_lost).then_some(i64::from(code));
        let error = answer.err().map(|error| error.rpc().unwrap().code);
        assert_eq!(error, expected);
        for expected in ["initialize", "notifications/initialized", "m"] {
            assert_eq!(server.next().await.rpc(), expected);
        }
        assert_eq!(server.nothing_received(), !is_lost);
    }
}

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
    for status in [502, 404, 405] {
        let error = failure(move |_| reply(status, "text/html", "<p>s3cret")).await;
        assert_error!(error, Error::Http { status: s, error: None, .. } if s == status);
        let is_about_path = error.to_string().ends_with(": check the path of its URL");
        assert_eq!(is_about_path, status != 502, "{error}");
    }
}

#[tokio::test]
async fn invalid_responses_are_protocol_errors() {
    type Answer = fn(&Received) -> Reply;
    let rows: [(Answer, &str); 6] = [
        (|_| accepted(), "without answering"),
        (
            |_| reply(200, "text/html", "<p>s3cret"),
            "not a JSON-RPC message",
        ),
        (
            |_| json(r#"{"jsonrpc":"2.0","id":99,"result":"s3cret"}"#),
            "another request",
        ),
        (
            |_| json(r#"{"jsonrpc":"2.0","id":1,"error":"s3cret"}"#),
            "error object",
        ),
        (
            |_| with_header(json("\x1f\x08s3cret"), "content-encoding", "gzip"),
            "Content-Encoding \"gzip\"",
        ),
        (
            |_| with_header(json("{}"), "x-large", &"s3cret".repeat(100_000)),
            "headers of its answer are too large",
        ),
    ];
    for (reply, says) in rows {
        assert_protocol(&failure(reply).await, says);
    }
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
    let server = Server::start(|request| result(request, "1e400")).await;
    let answer = server.client().request("m", &()).await.unwrap();
    assert_eq!(answer.get(), "1e400");
}

#[tokio::test]
async fn unknown_revision_of_the_server_is_an_error() {
    let hello = r#"{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{}}"#;
    let server = Server::start(move |request| result(request, hello)).await;
    let client = server.client();
    let error = client.initialize(&client_info()).await.unwrap_err();
    assert_protocol(&error, "protocol version");
}

#[tokio::test]
async fn messages_over_the_limit_are_errors() {
    fn long(request: &Received) -> String {
        answer(request, &format!(r#""{}""#, "s3cret".repeat(1_500_000)))
    }
    let known = |request: &Received| json(long(request));
    let chunked = |request: &Received| {
        let reply = events([long(request), String::new()]);
        with_header(reply, "content-type", "application/json")
    };
    let stream = |request: &Received| open_events([event(long(request))]);
    let answers: [fn(&Received) -> Reply; 3] = [known, chunked, stream];
    for answer in answers {
        assert_protocol(&failure(answer).await, "longer than 8388608 bytes");
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
    let client = builder()
        .http(Endpoint::new("http://127.0.0.1:1/s3cret").unwrap())
        .unwrap();
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

/// A request that gets no answer, and whose time is over once the server has it.
async fn late<T>(server: &mut Server, text: &str, request: impl Future<Output = T>) -> T {
    let skip = async {
        server.next_with(text).await;
        tokio::time::pause();
        std::future::pending().await
    };
    let done = tokio::select! {
        done = request => done,
        never = skip => never,
    };
    tokio::time::resume();
    done
}

#[tokio::test]
async fn request_that_is_dropped_or_too_slow_is_cancelled_at_the_server() {
    for is_dropped in [false, true] {
        let (mut server, client) = Server::connected(with_session(|_| silence())).await;
        if is_dropped {
            tokio::select! {
                _ = client.request("slow", &()) => panic!("answered"),
                _ = server.next_with(r#""slow""#) => {}
            }
        } else {
            let request = client.request("slow", &());
            let error = late(&mut server, r#""slow""#, request).await.unwrap_err();
            assert_error!(error, Error::Timeout { .. });
        }
        let cancelled = server.next_with("notifications/cancelled").await;
        assert_eq!(cancelled.json()["params"]["requestId"], 2);
        assert_eq!(cancelled.header("mcp-session-id"), Some("s1"));
    }
}

#[tokio::test]
async fn handshake_is_never_cancelled() {
    let mut server = Server::start(|_| silence()).await;
    let (client, info) = (server.client(), client_info());
    let request = client.initialize(&info);
    let error = late(&mut server, r#""initialize""#, request)
        .await
        .unwrap_err();
    assert_error!(error, Error::Timeout { .. });
    // All spawned tasks have been polled.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(server.nothing_received());
}

#[tokio::test]
async fn endless_list_is_what_was_read() {
    for (page, count) in [("[]", 0), (r#"[{"name":"a"},{"name":"b"}]"#, 2)] {
        let page = format!(r#"{{"tools":{page},"nextCursor":"again"}}"#);
        let server = Server::start(move |request| result(request, &page)).await;
        let listed = server.client().list("tools/list", "tools").await.unwrap();
        assert_eq!(listed.len(), count);
    }
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
    let counted = client.counters();
    assert_eq!(
        (counted.invalid_messages, counted.unmatched_responses),
        (1, 1)
    );
}

/// A proxy that has waited long enough answers in the server's place: the server may still ask for that call.
#[tokio::test]
async fn question_after_the_answer_of_a_proxy_reaches_no_other_caller() {
    let question = r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#;
    let (mut server, client) = Server::connected(with_session(move |request| {
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
