//! What the headers of a request say.

use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
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

/// What decides about the era.
pub(super) fn hints(headers: &HeaderMap) -> Hints<'_> {
    let mut hints = Hints {
        has_headers: true,
        ..Hints::default()
    };
    // One look at each header is less than a search for each name.
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

/// The headers that repeat arguments of a call.
pub(super) fn params(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    let named = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(PARAM_PREFIX)?;
        Some((name, value.as_bytes()))
    });
    named.collect()
}

/// Refuses headers that say two things: whoever routes by the one must not be answered by the other.
/// Says whether there are any that need a further look: most requests have none.
///
/// # Errors
/// `HeaderMismatch`, naming the header.
pub(super) fn check_unambiguous(headers: &HeaderMap) -> Result<bool, Error> {
    let mut any = false;
    for (name, value) in headers.iter().filter(|(name, _)| is_read(name)) {
        any = true;
        let is_single = [PROTOCOL_VERSION, METHOD, NAME, SESSION].contains(name);
        // Some clients say everything twice.
        if is_single && headers.get(name) != Some(value) {
            let detail = format!("the {name} header stands twice and says two things");
            return Err(Error::HeaderMismatch(detail));
        }
    }
    Ok(any)
}

/// The session that the request belongs to.
pub(super) fn session_id(headers: &HeaderMap) -> Option<&str> {
    let mut ours = headers.iter().filter(|(name, _)| is_ours(name));
    ours.find_map(|(name, value)| (*name == SESSION).then(|| text(value)))
}

/// The last event that a client has of the stream that it wants the rest of.
pub(super) fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(LAST_EVENT_ID).map(text)
}

/// The request says of itself that it only waits.
pub(super) fn is_subscription(headers: &HeaderMap) -> bool {
    headers.get(METHOD) == Some(&LISTEN)
}

/// A value that is not ASCII is there and equals nothing.
fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

/// A missing type is forgiven, a wrong one is not: forms and plain text are what a foreign page can
/// send without asking.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = values(headers, CONTENT_TYPE).next() else {
        return true;
    };
    value == "application/json"
        || media_type(value.as_bytes()).eq_ignore_ascii_case(b"application/json")
}

/// Whether the body is sent as it is: no encoding is supported.
pub(super) fn is_plain(headers: &HeaderMap) -> bool {
    values(headers, CONTENT_ENCODING)
        .all(|value| value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// The values of a header. With the few headers that requests have, comparing all names takes fewer
/// instructions than a lookup, which hashes the name.
fn values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &HeaderValue> {
    let named = headers.iter().filter(move |(found, _)| **found == name);
    named.map(|(_, value)| value)
}

/// A media type without its parameters.
fn media_type(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|byte| *byte == b';');
    value[..end.unwrap_or(value.len())].trim_ascii()
}

/// The media types that the client accepts: JSON where it does not say.
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
