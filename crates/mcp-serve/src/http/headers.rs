//! The headers of a request.

use std::borrow::Cow;

use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    TRANSFER_ENCODING,
};
use mcp_core::era::{Era, Hints};
use mcp_core::error::Error;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Header names come in lower case.
const PARAM_PREFIX: &str = "mcp-param-";

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
    Era::from_headers(&hints(headers))
}

/// True for a request that only waits (2026-07-28, "subscriptions/listen").
pub(super) fn is_subscription(headers: &HeaderMap) -> bool {
    era(headers) == Era::Modern
        && headers
            .get(METHOD)
            .is_some_and(|method| method == "subscriptions/listen")
}

/// The headers that decide the era, and those that repeat the body.
pub(super) fn hints(headers: &HeaderMap) -> Hints<'_> {
    Hints {
        protocol_version: headers.get(VERSION).map(text),
        method: headers.get(METHOD).map(text),
        name: headers.get(NAME).map(text),
        ..Hints::default()
    }
}

/// Returns the id of the session that the request names.
pub(super) fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION).map(text)
}

/// Returns the id of the last event that the client has of the stream that it resumes.
pub(super) fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(LAST_EVENT_ID).map(text)
}

/// Returns the headers that repeat arguments of a call.
pub(super) fn params(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    let named = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(PARAM_PREFIX)?;
        Some((name, value.as_bytes()))
    });
    named.collect()
}

/// Returns a header of W3C Trace Context or W3C Baggage. Its value is a list that may be on several lines (3.3.1.1;
/// 3.3). A line that is there twice counts once: some clients send every header twice.
pub(super) fn list<'a>(headers: &'a HeaderMap, name: &str) -> Option<Cow<'a, str>> {
    let mut lines: Vec<&str> = Vec::new();
    for line in headers.get_all(name).iter().map(text) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let value = match lines[..] {
        [line] => Cow::Borrowed(line),
        _ => Cow::Owned(lines.join(",")),
    };
    Some(value).filter(|value| !value.is_empty())
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

/// Returns a value as text; one that is not ASCII becomes empty and equals no valid value.
pub(super) fn text(value: &HeaderValue) -> &str {
    let bytes = value.as_bytes();
    match bytes.is_ascii() {
        true => str::from_utf8(bytes).unwrap_or_default(),
        false => "",
    }
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
    fn lists_of_a_trace_on_several_lines_are_one() {
        for (lines, joined) in [
            (&["a=1"][..], Some("a=1")),
            (&["a=1", "b=2"], Some("a=1,b=2")),
            (&["a=1", "a=1"], Some("a=1")),
            (&["", "a=1"], Some(",a=1")),
            (&["", ""], None),
            (&[], None),
        ] {
            let headers = headers(&HeaderName::from_static("baggage"), lines);
            assert_eq!(list(&headers, "baggage").as_deref(), joined, "{lines:?}");
        }
    }

    #[test]
    fn session_that_is_repeated_with_another_id_is_refused() {
        assert!(check_unambiguous(&headers(&SESSION, &["a", "a"])).is_ok());
        assert!(check_unambiguous(&headers(&SESSION, &["a", "b"])).is_err());
    }
}
