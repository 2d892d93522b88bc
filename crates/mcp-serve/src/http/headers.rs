//! The headers of a request.

use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    TRANSFER_ENCODING,
};
use mcp_core::era::Era;
use mcp_core::error::Error;
use mcp_core::http_headers::{METHOD, NAME, VERSION, text};

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Rejects a header of the protocol that is repeated with another value: a proxy may route by one value
/// and this server by the other. Some clients send every header twice.
pub(super) fn check_unambiguous(headers: &HeaderMap) -> Result<(), Error> {
    for name in [VERSION, METHOD, NAME, SESSION] {
        let first = headers.get(&name);
        if headers
            .get_all(&name)
            .iter()
            .any(|value| Some(value) != first)
        {
            let detail = format!("the {name} header is repeated with another value");
            return Err(Error::HeaderMismatch(detail));
        }
    }
    Ok(())
}

/// True for a transfer encoding other than one `chunked`, which hyper takes for chunked (RFC 9112, 6.1).
pub(super) fn has_ambiguous_end(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    !encodings.next().is_none_or(is_chunked) || encodings.next().is_some()
}

/// The value of `Authorization`; empty if it is repeated: which one the client means is unknown.
pub(super) fn authorization(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let first = values.next()?.as_bytes();
    Some(if values.next().is_some() { b"" } else { first })
}

/// True for JSON, and for a missing type. A web page can send forms and plain text to another origin without a
/// preflight request, so these are refused.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let is_json = |value: &HeaderValue| {
        media_type(value.as_bytes()).eq_ignore_ascii_case(b"application/json")
    };
    headers.get(CONTENT_TYPE).is_none_or(is_json)
}

/// True if the body is not encoded: no content encoding is supported.
pub(super) fn is_unencoded(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    encodings.all(|value| value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

pub(super) fn era(headers: &HeaderMap) -> Era {
    Era::without_body(text(headers, VERSION), None)
}

/// True for a request that only waits (2026-07-28, "subscriptions/listen").
pub(super) fn is_subscription(headers: &HeaderMap) -> bool {
    era(headers) == Era::Modern && text(headers, METHOD) == Some("subscriptions/listen")
}

/// Returns the id of the session that the request names.
pub(super) fn session_id(headers: &HeaderMap) -> Option<&str> {
    text(headers, SESSION)
}

/// Returns the id of the last event that the client has of the stream that it resumes.
pub(super) fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    text(headers, LAST_EVENT_ID)
}

/// Returns a copy that shares no memory.
pub(super) fn copied(headers: &HeaderMap) -> HeaderMap {
    let copied = headers.iter().filter_map(|(name, value)| {
        let value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
        Some((name.clone(), value))
    });
    let mut headers = HeaderMap::new();
    copied.for_each(|(name, value)| _ = headers.append(name, value));
    headers
}

/// A media type without its parameters.
fn media_type(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|byte| *byte == b';');
    value[..end.unwrap_or(value.len())].trim_ascii()
}

/// The media types that the client accepts; the default is JSON.
#[derive(Clone, Copy, Default)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

impl Accepts {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut accepts = Self::default();
        let values = headers.get_all(ACCEPT).iter();
        for media in values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')) {
            let media = media_type(media);
            let is = |name: &[u8]| media.eq_ignore_ascii_case(name);
            accepts.events |= is(b"text/event-stream");
            accepts.json |= is(b"application/json") || is(b"*/*") || is(b"application/*");
        }
        accepts.json |= !accepts.events;
        accepts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &HeaderName, values: &[&'static str]) -> HeaderMap {
        let values = values.iter().copied().map(HeaderValue::from_static);
        HeaderMap::from_iter(values.map(|value| (name.clone(), value)))
    }

    #[test]
    fn session_that_is_repeated_with_another_id_is_refused() {
        assert!(check_unambiguous(&headers(&SESSION, &["a", "a"])).is_ok());
        assert!(check_unambiguous(&headers(&SESSION, &["a", "b"])).is_err());
    }
}
