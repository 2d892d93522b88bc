//! What may stand between the gateway and a backend over HTTP: it can be a server of an older era,
//! refuse, break off, and lead to another server from one request to the next.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::harness::http_client;

/// What it does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Passes everything on.
    Pass,
    /// Passes everything on but what is of the era of 2026-07-28.
    Old,
    /// Answers calls of tools with this status and passes the rest on as an old server.
    Status(u16),
    /// Breaks off when a tool is called, after it has read the request.
    Break,
}

/// What it was sent.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) headers: http::HeaderMap,
    pub(super) body: String,
}

struct State {
    target: Mutex<String>,
    manner: Mutex<Manner>,
    seen: Mutex<Vec<Seen>>,
}

pub(super) struct Front {
    /// `http://127.0.0.1:PORT/mcp`.
    pub(super) url: String,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Front {
    /// In front of the server at this URL.
    pub(super) async fn of(target: &str, manner: Manner) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", socket.local_addr().unwrap());
        let state = Arc::new(State {
            target: Mutex::new(target.to_owned()),
            manner: Mutex::new(manner),
            seen: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                let state = Arc::clone(&shared);
                let service = service_fn(move |request| answer(Arc::clone(&state), request));
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        Self { url, state, task }
    }

    /// Leads to another server from now on.
    pub(super) fn lead_to(&self, target: &str) {
        target.clone_into(&mut self.state.target.lock().unwrap());
    }

    pub(super) fn be(&self, manner: Manner) {
        *self.state.manner.lock().unwrap() = manner;
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    /// How many requests held this text.
    pub(super) fn count(&self, what: &str) -> usize {
        let seen = self.seen();
        seen.iter().filter(|seen| seen.body.contains(what)).count()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// An error makes the connection end without an answer.
async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Body>, &'static str> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| "no body")?.to_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    let is_call = text.contains(r#""tools/call""#);
    state.seen.lock().unwrap().push(Seen {
        headers: head.headers.clone(),
        body: text,
    });
    let manner = *state.manner.lock().unwrap();
    match manner {
        Manner::Pass => {}
        _ if head.headers.contains_key("mcp-method") => return Ok(plain(400)),
        Manner::Status(status) if is_call => return Ok(plain(status)),
        Manner::Break if is_call => return Err("broke off"),
        _ => {}
    }
    let target = state.target.lock().unwrap().clone();
    let mut forwarded = http_client().request(head.method, target).body(body);
    for (name, value) in &head.headers {
        if !["host", "content-length", "connection"].contains(&name.as_str()) {
            forwarded = forwarded.header(name, value);
        }
    }
    let Ok(reply) = forwarded.send().await else {
        return Err("no server");
    };
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
    Ok(response
        .body(StreamBody::new(chunks).boxed_unsync())
        .unwrap())
}

fn plain(status: u16) -> Response<Body> {
    let body = Full::new(Bytes::from_static(b"no")).boxed_unsync();
    Response::builder().status(status).body(body).unwrap()
}
