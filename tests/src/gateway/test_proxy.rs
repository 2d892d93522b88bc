//! An HTTP proxy between the gateway and a backend, or between a server and its service. It can act as a legacy server,
//! answer with errors, break connections, and change its target.

use std::sync::{Arc, Mutex};

use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Response, Uri};
use reqwest::Client;

use crate::harness::{Body, HttpServer, Request, http_client};

/// The reaction to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyMode {
    /// Forwards everything.
    Forward,
    /// Rejects requests of 2026-07-28 and forwards the others.
    Legacy,
    /// As `Legacy`, but answers tool calls with this status.
    Status(u16),
    /// As `Legacy`, but closes the connection after it has read a tool call.
    Break,
    /// Answers everything with 401.
    Refuse,
}

struct ProxyState {
    target: Mutex<String>,
    mode: Mutex<ProxyMode>,
    requests: Mutex<Vec<Request>>,
}

pub(super) struct TestProxy {
    /// `http://127.0.0.1:PORT/mcp`.
    pub(super) url: String,
    state: Arc<ProxyState>,
    _server: HttpServer,
}

impl TestProxy {
    /// Starts a proxy for the server at this URL, or for the service at this origin or at this socket: `unix://…`.
    pub(super) async fn start(target: &str, mode: ProxyMode) -> Self {
        let state = Arc::new(ProxyState {
            target: Mutex::new(target.to_owned()),
            mode: Mutex::new(mode),
            requests: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        let answer = move |request| answer(Arc::clone(&shared), request);
        let server = HttpServer::start(answer).await;
        Self {
            url: format!("{}/mcp", server.url),
            state,
            _server: server,
        }
    }

    /// `http://127.0.0.1:PORT`.
    pub(super) fn origin(&self) -> &str {
        self.url.strip_suffix("/mcp").unwrap()
    }

    pub(super) fn set_target(&self, target: &str) {
        target.clone_into(&mut self.state.target.lock().unwrap());
    }

    pub(super) fn set_mode(&self, mode: ProxyMode) {
        *self.state.mode.lock().unwrap() = mode;
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().unwrap().clone()
    }

    /// Counts the requests that contain this text.
    pub(super) fn count(&self, part: &str) -> usize {
        let requests = self.requests().into_iter();
        requests.filter(|request| request.has(part)).count()
    }
}

/// Answers a request. An error closes the connection without an answer.
async fn answer(
    state: Arc<ProxyState>,
    request: hyper::Request<Incoming>,
) -> Result<Response<Body>, &'static str> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| "no body")?.to_bytes();
    let received = Request {
        method: head.method.to_string(),
        target: head.uri.to_string(),
        headers: head.headers.clone(),
        body: body.clone(),
    };
    let is_call = received.has(r#""tools/call""#);
    state.requests.lock().unwrap().push(received);
    let mode = *state.mode.lock().unwrap();
    match mode {
        ProxyMode::Forward => {}
        ProxyMode::Refuse => return Ok(plain(401)),
        _ if head.headers.contains_key("mcp-method") => return Ok(plain(400)),
        ProxyMode::Status(status) if is_call => return Ok(plain(status)),
        ProxyMode::Break if is_call => return Err("closed on purpose"),
        _ => {}
    }
    let target = state.target.lock().unwrap().clone();
    let (client, url) = client_and_url(target, &head.uri);
    let mut forwarded = client.request(head.method, url).body(body);
    for (name, value) in &head.headers {
        if !["host", "content-length", "connection"].contains(&name.as_str()) {
            forwarded = forwarded.header(name, value);
        }
    }
    let reply = forwarded.send().await.map_err(|_| "no server")?;
    let mut response = Response::builder().status(reply.status());
    for (name, value) in reply.headers() {
        if !["content-length", "transfer-encoding", "connection"].contains(&name.as_str()) {
            response = response.header(name, value);
        }
    }
    let chunks = stream::unfold(reply, |mut reply| async move {
        let chunk = reply.chunk().await.ok()??;
        Some((Ok(Frame::data(chunk)), reply))
    });
    let body = StreamBody::new(chunks).boxed_unsync();
    Ok(response.body(body).unwrap())
}

/// The client and the URL for a request of this path. An origin has no path of its own.
fn client_and_url(target: String, path: &Uri) -> (Client, String) {
    if let Some(socket) = target.strip_prefix("unix://") {
        let tls = mcp_client::tls::config_for("http").unwrap();
        let client = Client::builder().tls_backend_preconfigured(tls);
        let client = client.unix_socket(socket.to_owned()).build().unwrap();
        return (client, format!("http://localhost{path}"));
    }
    let is_origin = target.matches('/').count() == 2;
    let url = if is_origin {
        format!("{target}{path}")
    } else {
        target
    };
    (http_client(), url)
}

fn plain(status: u16) -> Response<Body> {
    HttpServer::response(status, "text/plain", "no")
}
