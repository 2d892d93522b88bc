//! An HTTP server on loopback with scripted replies, and a handler that records everything.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mcp_client::{Builder, Client, Endpoint, Error, Handler};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub(crate) type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A request that the server received.
pub(crate) struct Received {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The JSON-RPC method; empty for responses and for GET and DELETE.
    pub(crate) fn rpc(&self) -> String {
        self.json()["method"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) connections: Arc<AtomicUsize>,
    log: mpsc::UnboundedReceiver<Received>,
    _tasks: JoinSet<()>,
}

/// Builder of a client with time enough for a busy machine.
pub(crate) fn builder() -> Builder {
    let limit = Duration::from_secs(120);
    Client::builder().timeout(limit).connect_timeout(limit)
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::with_tls(None, answer).await
    }

    pub(crate) async fn with_tls(
        tls: Option<TlsAcceptor>,
        answer: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}/mcp", listener.local_addr().unwrap());
        let (sender, log) = mpsc::unbounded_channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let (answer, count) = (Arc::new(answer), connections.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let (answer, sender) = (answer.clone(), sender.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let (answer, sender) = (answer.clone(), sender.clone());
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await.unwrap().to_bytes();
                        let received = Received {
                            method: head.method,
                            path: head.uri.path().to_owned(),
                            headers: head.headers,
                            body: String::from_utf8(body.to_vec()).unwrap(),
                        };
                        let reply = answer(&received);
                        let _ = sender.send(received);
                        Ok::<_, Infallible>(reply)
                    }
                });
                let tls = tls.clone();
                open.spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    let Some(tls) = tls else {
                        return drop(http.serve_connection(TokioIo::new(socket), service).await);
                    };
                    // A client that does not trust us hangs up here.
                    if let Ok(socket) = tls.accept(socket).await {
                        let _ = http.serve_connection(TokioIo::new(socket), service).await;
                    }
                });
            }
        });
        Self {
            url,
            connections,
            log,
            _tasks: tasks,
        }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::new(&self.url).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        builder().http(self.endpoint()).unwrap()
    }

    /// A server with a client that has shaken hands.
    pub(crate) async fn connected(
        answer: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> (Self, Client) {
        let server = Self::start(answer).await;
        let client = server.client();
        client.initialize(&crate::client_info()).await.unwrap();
        (server, client)
    }

    /// The next request; waits for it.
    pub(crate) async fn next(&mut self) -> Received {
        self.log.recv().await.unwrap()
    }

    /// The next request whose body holds `text`.
    pub(crate) async fn next_with(&mut self, text: &str) -> Received {
        loop {
            let received = self.next().await;
            if received.body.contains(text) {
                return received;
            }
        }
    }

    pub(crate) fn nothing_received(&mut self) -> bool {
        self.log.try_recv().is_err()
    }
}

pub(crate) fn reply(status: u16, kind: &str, body: impl Into<Bytes>) -> Reply {
    Response::builder()
        .status(status)
        .header("content-type", kind)
        .body(Full::new(body.into()).boxed_unsync())
        .unwrap()
}

pub(crate) fn with_header(mut reply: Reply, name: &'static str, value: &str) -> Reply {
    reply.headers_mut().insert(name, value.parse().unwrap());
    reply
}

/// A whole reply with JSON, after which the connection ends.
pub(crate) fn last_reply(json: &str) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    format!("{head}content-length: {}\r\n\r\n{json}", json.len())
}

/// The result of a request to this address, by a client of its own.
pub(crate) async fn request_to(endpoint: Endpoint) -> Result<String, Error> {
    let result = builder().http(endpoint)?.request("m", &()).await?;
    Ok(result.get().to_owned())
}

pub(crate) fn json(body: impl Into<Bytes>) -> Reply {
    reply(200, "application/json", body)
}

/// A response with this `result`.
pub(crate) fn result(request: &Received, result: &str) -> Reply {
    json(answer(request, result))
}

pub(crate) fn answer(request: &Received, result: &str) -> String {
    let id = &request.json()["id"];
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// A response with an error.
pub(crate) fn rpc_error(id: &str, code: i32, message: &str) -> String {
    let error = serde_json::json!({"code": code, "message": message});
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

/// A stream of these pieces that then ends.
pub(crate) fn events(pieces: impl IntoIterator<Item = String>) -> Reply {
    streaming(pieces, stream::empty())
}

/// A stream of these pieces that then stays open.
pub(crate) fn open_events(pieces: impl IntoIterator<Item = String>) -> Reply {
    streaming(pieces, stream::pending())
}

fn streaming(
    pieces: impl IntoIterator<Item = String>,
    end: impl stream::Stream<Item = String> + Send + 'static,
) -> Reply {
    let pieces: Vec<_> = pieces.into_iter().collect();
    let pieces = stream::iter(pieces).chain(end);
    let body = StreamBody::new(pieces.map(|piece| Ok(Frame::data(Bytes::from(piece)))));
    Response::builder()
        .header("content-type", "text/event-stream; charset=utf-8")
        .body(body.boxed_unsync())
        .unwrap()
}

pub(crate) fn event(data: impl std::fmt::Display) -> String {
    format!("event: message\ndata: {data}\n\n")
}

pub(crate) fn accepted() -> Reply {
    reply(202, "text/plain", "")
}

/// A stream without any event.
pub(crate) fn silence() -> Reply {
    open_events([])
}

/// Answers the handshake with a session `s1`, and other requests with `then`.
pub(crate) fn with_session(
    then: impl Fn(&Received) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Received) -> Reply + Send + Sync + 'static {
    move |request| match request.rpc().as_str() {
        "initialize" => with_header(result(request, HELLO), "mcp-session-id", "s1"),
        method if method.starts_with("notifications/") => accepted(),
        _ => then(request),
    }
}

pub(crate) const HELLO: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"},"instructions":"be kind"}"#;

/// A record: `notification`, `request`, `stderr` or `renewed`; the method or line; the parameters.
pub(crate) type Seen = (&'static str, String, Value);

pub(crate) struct Recorder {
    seen: mpsc::UnboundedSender<Seen>,
    answer: Option<Value>,
}

/// A handler that answers all requests with `answer`, or never.
pub(crate) fn recorder(answer: Option<Value>) -> (Arc<Recorder>, mpsc::UnboundedReceiver<Seen>) {
    let (seen, all) = mpsc::unbounded_channel();
    (Arc::new(Recorder { seen, answer }), all)
}

impl Recorder {
    fn record(&self, kind: &'static str, what: &str, params: Option<&RawValue>) {
        let params = params.map(|params| serde_json::from_str(params.get()).unwrap());
        let _ = self
            .seen
            .send((kind, what.to_owned(), params.unwrap_or_default()));
    }
}

impl Handler for Recorder {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        self.record("notification", method, params);
    }

    fn request(&self, method: &str, params: Option<&RawValue>) -> mcp_client::Reply {
        self.record("request", method, params);
        let answer = self.answer.clone();
        Box::pin(async move {
            match answer {
                Some(answer) => Ok(serde_json::value::to_raw_value(&answer).unwrap()),
                None => std::future::pending().await,
            }
        })
    }

    fn stderr(&self, _peer: &str, line: &str) {
        self.record("stderr", line, None);
    }

    fn session_renewed(&self, server: &mcp_client::ServerInfo) {
        self.record("renewed", &server.protocol_version, None);
    }
}
