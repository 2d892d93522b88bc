//! The headers of a message: those of the modern era, which repeat parts of the body (2026-07-28, "Request
//! Metadata"), and those of the session of the legacy era.

use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_core::http_headers::{encode, named_member};
use mcp_core::jsonrpc::{Members, string};
use mcp_core::revision::MODERN;

use crate::meta::TraceField;

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The headers of one message, in addition to those of every message.
pub(crate) type HeaderList = Vec<(HeaderName, HeaderValue)>;

/// The headers of the session of the legacy era, which follow from its handshake.
#[derive(Clone, Default)]
pub(crate) struct SessionHeaders {
    /// `Mcp-Session-Id`, if the server issued one.
    pub(super) id: Option<HeaderValue>,
    /// `MCP-Protocol-Version`, after the handshake.
    revision: Option<HeaderValue>,
}

impl SessionHeaders {
    /// Stores the id from the response to `initialize`.
    pub(super) fn open(&mut self, response: &HeaderMap) {
        if let Some(id) = response.get(SESSION_ID) {
            let mut id = id.clone();
            id.set_sensitive(true);
            self.id = Some(id);
        }
    }

    pub(super) fn set_revision(&mut self, revision: &'static str) {
        self.revision = Some(HeaderValue::from_static(revision));
    }

    /// Returns true after a handshake.
    pub(super) fn has_revision(&self) -> bool {
        self.revision.is_some()
    }

    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.id {
            headers.insert(SESSION_ID, id.clone());
        }
        if let Some(revision) = &self.revision {
            headers.insert(PROTOCOL_VERSION, revision.clone());
        }
    }
}

/// The headers of the modern era; none in the others.
pub(crate) fn request_headers(
    is_modern: bool,
    method: &str,
    params: Option<&Members>,
    annotated: &[(HeaderName, HeaderValue)],
) -> HeaderList {
    let mut headers = HeaderList::new();
    if !is_modern {
        return headers;
    }
    // And for those of a trace context.
    headers.reserve(6 + annotated.len());
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

/// Returns true for the headers of the modern era.
pub(super) fn are_modern(headers: &HeaderList) -> bool {
    headers.iter().any(|(name, _)| *name == METHOD)
}

/// Returns the headers of the fields of a trace context.
pub(crate) fn trace_headers<'a>(
    fields: impl IntoIterator<Item = TraceField<'a>>,
) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    fields.into_iter().filter_map(|(name, value)| {
        let value = HeaderValue::try_from(value.into_owned()).ok()?;
        Some((HeaderName::from_static(name), value))
    })
}

/// Encodes a header value, using base64 if it is not plain ASCII.
pub(super) fn header_value(value: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&encode(value)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modern_requests_repeat_method_and_name() {
        let headers = |method, params| {
            let params = Members::read(params).unwrap();
            HeaderMap::from_iter(request_headers(true, method, Some(&params), &[]))
        };
        let call = headers(
            "tools/call",
            r#"{"arguments":{"name":"x"},"name":"caf\u00e9"}"#,
        );
        assert_eq!(call["mcp-protocol-version"], "2026-07-28");
        assert_eq!(call["mcp-method"], "tools/call");
        assert_eq!(call["mcp-name"], "=?base64?Y2Fmw6k=?=");
        let read = headers("resources/read", r#"{"uri":"a:b"}"#);
        assert_eq!(read["mcp-name"], "a:b");
        assert!(request_headers(false, "tools/call", None, &[]).is_empty());
    }
}
