//! The headers in which the modern era repeats what the body says (2026-07-28, "Request Metadata").

use http::{HeaderName, HeaderValue};
use mcp_core::http_headers::{encode, named_member};
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
    if let Some(method) = header_value(method) {
        headers.push((METHOD, method));
    }
    let name = named_member(method).and_then(|member| string(params?.get(member)?));
    if let Some(name) = name
        && let Some(name) = header_value(&name)
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

/// A value as it can stand in a header.
pub(super) fn header_value(value: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&encode(value)).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

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
