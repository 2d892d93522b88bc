//! HTTP responses, and those to other origins (Fetch Standard, "CORS protocol"): a page of an admitted origin may call
//! the server and read its responses. The guard has refused other origins before.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap,
    HeaderName, HeaderValue, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
};
use http::{Method, StatusCode};
use mcp_core::era::Era;
use mcp_core::error::{Error, ErrorCodes};
use mcp_core::server::FrameReply;
use serde_json::Value;

/// The reason of a refusal because of `Host` or `Origin`.
pub(super) const FOREIGN_HOST: &str = "foreign_host";

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Seconds after which a request that meets a limit may be sent again.
const SOON: HeaderValue = HeaderValue::from_static("1");

pub(super) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// The reason of a failure that is none of the protocol, as JSON.
pub(super) fn failure(status: StatusCode, reason: &str) -> Response {
    json(status, serde_json::json!({"error": reason}).to_string())
}

pub(super) fn empty(status: StatusCode) -> Response {
    status.into_response()
}

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
    /// It is none of the protocol, and has a reason of its own.
    Other(StatusCode, &'static str),
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
    let response = failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, advice);
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
    let reply = FrameReply::failed("null", era, error, codes);
    let mut response = json(status, reply.body.unwrap_or_default());
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
    let error = "the server is at its limit of requests, try again";
    let mut response = failure(StatusCode::SERVICE_UNAVAILABLE, error);
    response.headers_mut().insert(RETRY_AFTER, SOON);
    because("busy", response)
}

/// The response to a client at its limit of streams: 429.
pub(super) fn too_many_streams(limit: usize) -> Response {
    let error = format!("this client has reached the limit of {limit} open streams; close one");
    let mut response = failure(StatusCode::TOO_MANY_REQUESTS, &error);
    response.headers_mut().insert(RETRY_AFTER, SOON);
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

/// Response headers that a page may read, in addition to the CORS-safelisted ones.
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate, Retry-After");

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");

/// Seconds for which a browser may keep the answer to a preflight request.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// Answers a preflight request.
pub(super) fn preflight(headers: &HeaderMap) -> Response {
    let mut response = empty(StatusCode::NO_CONTENT);
    let allowed = response.headers_mut();
    allowed.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    allowed.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    // All of them: clients send further headers of the protocol (`Mcp-Param-…`) and trace context.
    if let Some(names) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        allowed.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    response
}

/// Returns true for a preflight request. Browsers send it without a token.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Allows a page of `origin` to read the response.
pub(super) fn allow(response: &mut Response, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    headers.append(VARY, HeaderValue::from_static("Origin"));
}
