//! HTTP responses.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::StatusCode;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use mcp_core::era::Era;
use mcp_core::error::{Error, ErrorCodes};
use serde_json::Value;

use super::events::EventStream;

/// The reason of a refusal because of `Host` or `Origin`.
pub(super) const FOREIGN_HOST: &str = "foreign_host";

const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

pub(super) fn empty(status: StatusCode) -> Response {
    status.into_response()
}

/// A stream of events.
pub(super) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache"),
        // Disables the buffer of nginx.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let body = Body::from_stream(events.map(Ok::<_, Infallible>));
    (headers, body).into_response()
}

/// A stream on which a client only listens, and with which its connection ends.
pub(super) fn idle_stream(events: EventStream) -> Response {
    let mut response = self::events(events);
    end_connection(&mut response);
    response
}

/// Announces the end of the connection.
pub(super) fn end_connection(response: &mut Response) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
}

/// The reason why a request is refused before it is read, or as it cannot be.
pub(super) enum Refusal {
    Error(Error),
    /// Its host or origin is foreign, or its end is ambiguous.
    Host(Error),
    /// The server is at its limit.
    Busy,
    /// An unsupported body, with advice.
    Unsupported(&'static str),
    /// The body cannot be read.
    Body(StatusCode, &'static str),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// The reason why a request was refused before it was read, as an extension of its response.
#[derive(Clone, Copy)]
pub(super) struct Refused(pub(super) &'static str);

/// Marks a response as a refusal, which `/metrics` counts by its reason.
pub(super) fn because(reason: &'static str, mut response: Response) -> Response {
    response.extensions_mut().insert(Refused(reason));
    response
}

/// The response to an unsupported body: 415, with advice.
pub(super) fn unsupported(advice: &str) -> Response {
    let body = serde_json::json!({"error": advice});
    let response = json(StatusCode::UNSUPPORTED_MEDIA_TYPE, body.to_string());
    because("unsupported_media_type", response)
}

/// The response to a request that was refused before its body was read: a JSON-RPC error without an id,
/// and the HTTP status of that error.
pub(super) fn refused(error: &Error, era: Era, codes: ErrorCodes) -> Response {
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
pub(super) fn busy() -> Response {
    let body = serde_json::json!({"error": "the server is at its limit of requests, try again"});
    let mut response = json(StatusCode::SERVICE_UNAVAILABLE, body.to_string());
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    because("busy", response)
}

/// The response to a client at its limit of streams: 429.
pub(super) fn too_many_streams(limit: usize) -> Response {
    let error = format!("this client has reached the limit of {limit} open streams; close one");
    let body = serde_json::json!({"error": error});
    let mut response = json(StatusCode::TOO_MANY_REQUESTS, body.to_string());
    let soon = HeaderValue::from_static("1");
    response.headers_mut().insert(RETRY_AFTER, soon);
    because("too_many_streams", response)
}

/// The response to other methods: 405, with a body for people with a browser or a bare `curl`.
pub(super) fn method_not_allowed(help: &Value) -> Response {
    let mut response = json(StatusCode::METHOD_NOT_ALLOWED, format!("{help:#}\n"));
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static("POST"));
    response
}
