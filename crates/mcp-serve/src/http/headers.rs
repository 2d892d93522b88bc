//! The headers of a request.

use http::header::{
    ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, ORIGIN,
};
use mcp_core::era::Hints;
use mcp_core::error::Error;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Header names come in lower case.
const PARAM_PREFIX: &str = "mcp-param-";
const LISTEN: HeaderValue = HeaderValue::from_static("subscriptions/listen");

/// Returns the headers that decide the era.
pub(super) fn hints(headers: &HeaderMap) -> Hints<'_> {
    let mut hints = Hints {
        has_headers: true,
        ..Hints::default()
    };
    // One pass over the headers is faster than a lookup for each name.
    for (name, value) in headers.iter().filter(|(name, _)| is_read(name)) {
        let field = match name {
            name if *name == PROTOCOL_VERSION => &mut hints.protocol_version,
            name if *name == METHOD => &mut hints.method,
            name if *name == NAME => &mut hints.name,
            name if *name == TRACEPARENT => &mut hints.traceparent,
            _ => continue,
        };
        field.get_or_insert_with(|| text(value));
    }
    hints
}

fn is_ours(name: &HeaderName) -> bool {
    name.as_str().as_bytes().starts_with(b"mcp-")
}

fn is_read(name: &HeaderName) -> bool {
    is_ours(name) || *name == TRACEPARENT
}

/// Returns the headers that repeat arguments of a call.
pub(super) fn params(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    let named = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(PARAM_PREFIX)?;
        Some((name, value.as_bytes()))
    });
    named.collect()
}

/// Rejects a header that is repeated with another value: a proxy may route by one value and this server
/// by the other. Returns true if there are MCP headers; most requests have none.
///
/// # Errors
/// `HeaderMismatch`, naming the header.
pub(super) fn check_unambiguous(headers: &HeaderMap) -> Result<bool, Error> {
    let mut any = false;
    // A comparison of names takes fewer instructions than a lookup for each.
    let single = [PROTOCOL_VERSION, METHOD, NAME, SESSION];
    let mut first = [None; 4];
    for (name, value) in headers.iter().filter(|(name, _)| is_read(name)) {
        any = true;
        let Some(at) = single.iter().position(|single| single == name) else {
            continue;
        };
        // Some clients send every header twice.
        if *first[at].get_or_insert(value) != value {
            let detail = format!("the {name} header is repeated with another value");
            return Err(Error::HeaderMismatch(detail));
        }
    }
    Ok(any)
}

/// Returns the id of the session that the request names.
pub(super) fn session_id(headers: &HeaderMap) -> Option<&str> {
    let mut ours = headers.iter().filter(|(name, _)| is_ours(name));
    ours.find_map(|(name, value)| (*name == SESSION).then(|| text(value)))
}

/// Returns the id of the last event that the client has of the stream that it resumes.
pub(super) fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(LAST_EVENT_ID).map(text)
}

/// Returns true if the request is a subscription, which only waits.
pub(super) fn is_subscription(headers: &HeaderMap) -> bool {
    headers.get(METHOD) == Some(&LISTEN)
}

/// Returns a value as text; one that is not ASCII becomes empty and equals no valid value.
fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

/// Returns true for JSON and for a missing type. A web page can send forms and plain text to another
/// origin without a preflight request, so these are refused.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = values(headers, CONTENT_TYPE).next() else {
        return true;
    };
    value == "application/json"
        || media_type(value.as_bytes()).eq_ignore_ascii_case(b"application/json")
}

/// Returns true if the body is not encoded: no content encoding is supported.
pub(super) fn is_unencoded(headers: &HeaderMap) -> bool {
    values(headers, CONTENT_ENCODING)
        .all(|value| value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// The values of a header. With the few headers that requests have, comparing all names takes fewer
/// instructions than a lookup, which hashes the name.
fn values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &HeaderValue> {
    let named = headers.iter().filter(move |(found, _)| **found == name);
    named.map(|(_, value)| value)
}

/// Returns the origin of the page that sends the request; only browsers send one.
pub(super) fn origin(headers: &HeaderMap) -> Option<HeaderValue> {
    values(headers, ORIGIN).next().cloned()
}

/// A media type without its parameters.
fn media_type(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|byte| *byte == b';');
    value[..end.unwrap_or(value.len())].trim_ascii()
}

/// The media types that the client accepts; the default is JSON.
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

impl Accepts {
    pub(super) fn new(headers: &HeaderMap) -> Self {
        let mut accepts = Self {
            json: false,
            events: false,
        };
        for value in values(headers, ACCEPT) {
            if value == "application/json" {
                accepts.json = true;
                continue;
            }
            for media in value.as_bytes().split(|byte| *byte == b',') {
                let media = media_type(media);
                let is = |name: &[u8]| media.eq_ignore_ascii_case(name);
                accepts.events |= is(b"text/event-stream");
                accepts.json |= is(b"application/json") || is(b"*/*") || is(b"application/*");
            }
        }
        accepts.json |= !accepts.events;
        accepts
    }
}

#[cfg(test)]
mod tests;
