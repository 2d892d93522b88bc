//! The headers in which the modern era repeats what the body says (2026-07-28, "Request Metadata").

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use mcp_core::jsonrpc::{Members, string};
use mcp_core::revision::MODERN;

use super::session::PROTOCOL_VERSION;

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The headers of one message, beside those of every message.
pub(crate) type Fields = Vec<(HeaderName, HeaderValue)>;

/// What the modern era says; nothing before it.
pub(crate) fn request_headers(
    is_modern: bool,
    method: &str,
    params: Option<&Members>,
    annotated: &[(HeaderName, HeaderValue)],
) -> Fields {
    let mut headers = Fields::new();
    if !is_modern {
        return headers;
    }
    headers.reserve(4 + annotated.len());
    headers.push((PROTOCOL_VERSION, HeaderValue::from_static(MODERN)));
    if let Some(method) = encoded(method) {
        headers.push((METHOD, method));
    }
    let name = named(method).and_then(|member| string(params?.get(member)?));
    if let Some(name) = name
        && let Some(name) = encoded(&name)
    {
        headers.push((NAME, name));
    }
    headers.extend_from_slice(annotated);
    headers
}

/// True for those of a request of the modern era.
pub(super) fn are_modern(headers: &Fields) -> bool {
    headers.iter().any(|(name, _)| *name == METHOD)
}

/// Adds the trace context, if it can stand in a header.
pub(crate) fn trace(headers: &mut Fields, traceparent: Option<&str>) {
    if let Some(value) = traceparent.and_then(|value| HeaderValue::from_str(value).ok()) {
        headers.push((TRACEPARENT, value));
    }
}

/// The member of the params that says what the request is about.
fn named(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// A value as it can stand in a header: as it is where that is safe, in base64 otherwise.
pub(super) fn encoded(value: &str) -> Option<HeaderValue> {
    let is_visible = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let is_trimmed = value.trim_matches(' ') == value;
    let looks_encoded = value.starts_with("=?base64?") && value.ends_with("?=");
    let value = match is_visible && is_trimmed && !looks_encoded {
        true => HeaderValue::from_str(value),
        false => HeaderValue::from_str(&format!("=?base64?{}?=", STANDARD.encode(value))),
    };
    value.ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[track_caller]
    fn check(value: &str, expected: &str) {
        assert_eq!(encoded(value).unwrap(), expected);
    }

    #[test]
    fn what_is_not_safe_is_encoded() {
        check("us-west1", "us-west1");
        check("us west 1", "us west 1");
        check("", "");
        check("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?=");
        check(" padded ", "=?base64?IHBhZGRlZCA=?=");
        check("line1\nline2", "=?base64?bGluZTEKbGluZTI=?=");
        check("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=");
    }

    fn of_request(method: &str, params: &Members) -> HeaderMap {
        HeaderMap::from_iter(request_headers(true, method, Some(params), &[]))
    }

    #[test]
    fn the_modern_era_repeats_method_and_name() {
        let read = |params| Members::read(params).unwrap();
        let params = read(r#"{"arguments":{"name":"x"},"name":"caf\u00e9"}"#);
        let headers = of_request("tools/call", &params);
        assert_eq!(headers["mcp-protocol-version"], "2026-07-28");
        assert_eq!(headers["mcp-method"], "tools/call");
        assert_eq!(headers["mcp-name"], "=?base64?Y2Fmw6k=?=");
        let params = read(r#"{"uri":"a:b"}"#);
        let headers = of_request("resources/read", &params);
        assert_eq!(headers["mcp-name"], "a:b");
        assert!(request_headers(false, "tools/call", Some(&params), &[]).is_empty());
    }
}
