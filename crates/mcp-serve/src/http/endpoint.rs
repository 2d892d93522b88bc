//! The paths of a server, and what happens to a `POST /mcp`.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming as RequestBody;
use mcp_core::era::{Era, Hints};
use mcp_core::error::Error;
use mcp_core::server::{Answer, Incoming, Server};
use mcp_core::tool::{Call, Peer};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::body::{self, Refused};
use super::reply::{self, Reply};
use super::stream::{EventStream, Outbox, Work};
use super::{Guard, Limits};

pub(super) struct Endpoint {
    server: Arc<Server>,
    guard: Guard,
    limits: Limits,
    address: SocketAddr,
    in_flight: Arc<Semaphore>,
}

impl Endpoint {
    pub(super) fn new(
        server: Arc<Server>,
        guard: Guard,
        limits: Limits,
        address: SocketAddr,
    ) -> Self {
        let in_flight = Arc::new(Semaphore::new(limits.in_flight));
        Self {
            server,
            guard,
            limits,
            address,
            in_flight,
        }
    }

    pub(super) async fn answer(&self, request: Request<RequestBody>) -> Response<Reply> {
        let headers = request.headers();
        let era = Era::of_unreadable(&hints(headers));
        let profile = self.server.profile();
        let is_public = !matches!(request.uri().path(), "/mcp") || request.method() != Method::POST;
        let checked = if is_public {
            self.guard.check_names(headers)
        } else {
            self.guard.check(headers)
        };
        if let Err(error) = checked {
            tracing::debug!(kind = error.kind(), "refused");
            return reply::refused(&error, era, profile);
        }
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/mcp") => self.post(request).await,
            (_, "/mcp") => reply::method_not_allowed(&self.help()),
            (&Method::GET, "/healthz") => reply::json(StatusCode::OK, r#"{"status":"ok"}"#),
            (&Method::GET, "/readyz") => self.ready(),
            _ => reply::json(StatusCode::NOT_FOUND, format!("{:#}\n", self.help())),
        }
    }

    async fn post(&self, request: Request<RequestBody>) -> Response<Reply> {
        let (head, body) = request.into_parts();
        let era = Era::of_unreadable(&hints(&head.headers));
        let profile = self.server.profile();
        let Ok(permit) = Arc::clone(&self.in_flight).try_acquire_owned() else {
            return reply::busy();
        };
        if !is_json(&head.headers) {
            let body = json!({"error": "send the message as Content-Type: application/json"});
            return reply::json(StatusCode::UNSUPPORTED_MEDIA_TYPE, body.to_string());
        }
        let body = match body::read(body, self.limits.body, self.limits.body_idle).await {
            Ok(body) => body,
            Err(Refused::TooLarge) => {
                return reply::refused(&Error::TooLarge(self.limits.body), era, profile);
            }
            Err(Refused::TooSlow | Refused::Broken) => {
                return reply::empty(StatusCode::REQUEST_TIMEOUT);
            }
        };
        let accepts = Accepts::of(&head.headers);
        let (outbox, mut messages) = Outbox::new();
        let peer = accepts.events.then(|| Arc::new(outbox) as Arc<dyn Peer>);
        let server = Arc::clone(&self.server);
        let cancel = CancellationToken::new();
        let call = Call::new(cancel.clone(), peer);
        // A subscription is a request that only waits: what bounds those is the connections.
        let permit = (head.headers.get(MCP_METHOD) != Some(&LISTEN)).then_some(permit);
        let work = async move {
            let answer = server
                .handle(Incoming {
                    frame: &body,
                    hints: hints(&head.headers),
                    connection: None,
                    call,
                })
                .await;
            drop(permit);
            answer
        };
        let mut work = Work::new(work, (era == Era::Modern).then_some(cancel));
        if !accepts.json {
            return reply::events(EventStream::new(
                None,
                messages,
                work,
                self.limits.keep_alive,
            ));
        }
        // A call that says something before its answer turns the reply into a stream.
        match first(&mut work, &mut messages).await {
            First::Answer(answer) => plain(answer),
            First::Message(message) => reply::events(EventStream::new(
                Some(message),
                messages,
                work,
                self.limits.keep_alive,
            )),
        }
    }

    fn ready(&self) -> Response<Reply> {
        match self.server.degraded() {
            None => reply::json(StatusCode::OK, r#"{"status":"online"}"#),
            Some(reason) => {
                let body = json!({"status": "degraded", "reason": reason});
                reply::json(StatusCode::SERVICE_UNAVAILABLE, body.to_string())
            }
        }
    }

    /// What this is and how to use it, for people who look at it with a browser or a bare `curl`.
    fn help(&self) -> Value {
        let identity = self.server.identity();
        json!({
            "name": identity.name,
            "version": identity.version,
            "description": identity.description,
            "protocol": "Model Context Protocol, JSON-RPC 2.0: POST one message to /mcp",
            "example": format!(
                "curl http://{}/mcp -H 'Content-Type: application/json' -d '{}'",
                self.address,
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#
            ),
        })
    }
}

enum First {
    Answer(Answer),
    Message(String),
}

async fn first(work: &mut Work, messages: &mut tokio::sync::mpsc::Receiver<String>) -> First {
    std::future::poll_fn(|cx| {
        if let Poll::Ready(answer) = Pin::new(&mut *work).poll(cx) {
            // What was said in the same breath as the answer is not worth a stream.
            return Poll::Ready(First::Answer(answer));
        }
        match messages.poll_recv(cx) {
            Poll::Ready(Some(message)) => Poll::Ready(First::Message(message)),
            _ => Poll::Pending,
        }
    })
    .await
}

fn plain(answer: Answer) -> Response<Reply> {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    match answer.body {
        Some(body) => reply::json(status, body),
        None => reply::empty(status),
    }
}

fn hints(headers: &HeaderMap) -> Hints<'_> {
    let get = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    Hints {
        protocol_version: get(&PROTOCOL_VERSION),
        method: get(&MCP_METHOD),
        name: get(&MCP_NAME),
        negotiated: None,
        has_headers: true,
    }
}

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const LISTEN: HeaderValue = HeaderValue::from_static("subscriptions/listen");
const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// A missing type is forgiven, a wrong one is not: forms and plain text are what a foreign page can
/// send without asking.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return true;
    };
    let Ok(value) = value.to_str() else {
        return false;
    };
    let media = value.split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("application/json")
}

/// What the client can read. Whoever does not say can read JSON.
struct Accepts {
    json: bool,
    events: bool,
}

impl Accepts {
    fn of(headers: &HeaderMap) -> Self {
        let mut listed = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let text = listed
            .by_ref()
            .collect::<Vec<_>>()
            .join(",")
            .to_ascii_lowercase();
        let events = text.contains("text/event-stream");
        let json = !events || text.contains("json") || text.contains("*/*");
        Self { json, events }
    }
}
