//! Cross-origin requests (Fetch Standard, "CORS protocol"): a page of an admitted origin may call the server
//! and read its responses. The guard has refused other origins before.

use axum::response::Response;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, VARY,
};
use http::{Method, StatusCode};

use super::reply;

/// Response headers that a page may read, in addition to the CORS-safelisted ones.
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate, Retry-After");

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");

/// Seconds for which a browser may keep the answer to a preflight request.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// Answers a preflight request.
pub(super) fn preflight(headers: &HeaderMap) -> Response {
    let mut response = reply::empty(StatusCode::NO_CONTENT);
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
