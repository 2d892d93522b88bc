//! HTTP responses.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{
    ALLOW, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use mcp_core::era::Era;
use mcp_core::error::{Error, ErrorCodes};
use serde_json::Value;

use super::body;
use super::events::{EventStream, Replay};
use super::headers::SESSION;

/// A response body: complete, or a stream of events.
pub(super) enum Reply {
    Whole(Full<Bytes>),
    Events(Box<EventStream>),
    /// A stream on which a client only listens.
    IdleStream(Box<EventStream>),
    /// A stream that can be resumed.
    Replay(Box<Replay>),
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            Self::Events(events) | Self::IdleStream(events) => events
                .poll_event(cx)
                .map(|event| event.map(|event| Ok(Frame::data(event)))),
            Self::Replay(replay) => replay
                .poll_event(cx)
                .map(|event| event.map(|event| Ok(Frame::data(event)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Events(events) | Self::IdleStream(events) => events.is_over(),
            Self::Replay(replay) => replay.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Events(_) | Self::IdleStream(_) | Self::Replay(_) => SizeHint::default(),
        }
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Reply> {
    json_in(HeaderMap::new(), status, body)
}

/// The same, with the memory of other headers, which hyper keeps for the next request on the connection: so the headers
/// of most requests and responses allocate nothing.
pub(super) fn json_in(
    mut headers: HeaderMap,
    status: StatusCode,
    body: impl Into<Bytes>,
) -> Response<Reply> {
    headers.clear();
    headers.insert(CONTENT_TYPE, JSON);
    let mut response = Response::new(Reply::Whole(Full::new(body.into())));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The response with the id of a new session, if there is one.
pub(super) fn with_session(
    mut response: Response<Reply>,
    session: Option<HeaderValue>,
) -> Response<Reply> {
    if let Some(id) = session {
        response.headers_mut().insert(SESSION, id);
    }
    response
}

pub(super) fn empty(status: StatusCode) -> Response<Reply> {
    let mut response = Response::new(Reply::Whole(Full::new(Bytes::new())));
    *response.status_mut() = status;
    response
}

pub(super) fn events(events: EventStream) -> Response<Reply> {
    event_stream(Reply::Events(Box::new(events)))
}

/// A stream on which a client only listens.
pub(super) fn idle_stream(events: EventStream) -> Response<Reply> {
    event_stream(Reply::IdleStream(Box::new(events)))
}

pub(super) fn resumable(replay: Replay) -> Response<Reply> {
    event_stream(Reply::Replay(Box::new(replay)))
}

fn event_stream(reply: Reply) -> Response<Reply> {
    let mut response = Response::new(reply);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(
        http::header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache"),
    );
    // Disables the buffer of nginx.
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

/// Completes the response to a request whose body may be incomplete: it announces the end of the connection.
/// Otherwise a client would send its next request into a closed connection.
pub(super) fn before_body<B>(
    mut response: Response<Reply>,
    headers: &HeaderMap,
    body: &mut B,
) -> Response<Reply>
where
    B: Body<Data = Bytes> + Unpin,
{
    if !body::has_arrived(body, headers) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
        response.extensions_mut().insert(BodyNotRead);
    }
    response
}

/// An extension of the response to a request whose body may still arrive.
#[derive(Clone, Copy)]
pub(super) struct BodyNotRead;

/// The reason why a request was refused before it was read, as an extension of its response.
#[derive(Clone, Copy)]
pub(super) struct Refused(pub(super) &'static str);

/// Marks a response as a refusal, which `/metrics` counts by its reason.
pub(super) fn because(reason: &'static str, mut response: Response<Reply>) -> Response<Reply> {
    response.extensions_mut().insert(Refused(reason));
    response
}

/// The response to an unsupported body: 415, with advice.
pub(super) fn unsupported(advice: &str) -> Response<Reply> {
    let body = serde_json::json!({"error": advice});
    let response = json(StatusCode::UNSUPPORTED_MEDIA_TYPE, body.to_string());
    because("unsupported_media_type", response)
}

/// The response to a request that was refused before its body was read: a JSON-RPC error without an id,
/// and the HTTP status of that error.
pub(super) fn refused(error: &Error, era: Era, codes: ErrorCodes) -> Response<Reply> {
    let status = match error {
        Error::Unauthorized(_) => StatusCode::UNAUTHORIZED,
        Error::SessionNotFound => StatusCode::NOT_FOUND,
        Error::Forbidden(_) | Error::InsufficientScope(_) => StatusCode::FORBIDDEN,
        Error::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        Error::RateLimited(_) => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::BAD_REQUEST,
    };
    let mut body = Vec::new();
    let outcome = Err(error.render(era, codes));
    mcp_core::jsonrpc::Response { id: None, outcome }.write(&mut body);
    let mut response = json(status, body);
    if matches!(error, Error::Unauthorized(_)) {
        response
            .headers_mut()
            .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Error::RateLimited(wait) = error {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
    }
    because(error.kind(), response)
}

/// The response of a server at its limit: 503.
pub(super) fn busy() -> Response<Reply> {
    let body = serde_json::json!({"error": "the server is at its limit of requests, try again"});
    let mut response = json(StatusCode::SERVICE_UNAVAILABLE, body.to_string());
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    because("busy", response)
}

/// The response to a client at its limit of streams: 429.
pub(super) fn too_many_streams(limit: usize) -> Response<Reply> {
    let error = format!("this client has reached the limit of {limit} open streams; close one");
    let body = serde_json::json!({"error": error});
    let mut response = json(StatusCode::TOO_MANY_REQUESTS, body.to_string());
    let soon = HeaderValue::from_static("1");
    response.headers_mut().insert(RETRY_AFTER, soon);
    because("too_many_streams", response)
}

/// The response to other methods: 405, with a body for people with a browser or a bare `curl`.
pub(super) fn method_not_allowed(help: &Value) -> Response<Reply> {
    let mut response = json(StatusCode::METHOD_NOT_ALLOWED, format!("{help:#}\n"));
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static("POST"));
    response
}
