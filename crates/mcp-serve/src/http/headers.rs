//! What the headers of a request say.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use mcp_core::era::Hints;
use mcp_core::error::Error;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Header names come in lower case.
const PARAM_PREFIX: &str = "mcp-param-";
const LISTEN: HeaderValue = HeaderValue::from_static("subscriptions/listen");

/// What decides about the era.
pub(super) fn hints(headers: &HeaderMap) -> Hints<'_> {
    Hints {
        protocol_version: text(headers, &PROTOCOL_VERSION),
        method: text(headers, &METHOD),
        name: text(headers, &NAME),
        params: &[],
        negotiated: None,
        has_headers: true,
    }
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
///
/// # Errors
/// `HeaderMismatch`, naming the header.
pub(super) fn check_unambiguous(headers: &HeaderMap) -> Result<(), Error> {
    for name in [&PROTOCOL_VERSION, &METHOD, &NAME, &SESSION] {
        let mut values = headers.get_all(name).iter();
        let first = values.next();
        // Some clients say everything twice.
        if values.any(|value| Some(value) != first) {
            let detail = format!("the {name} header stands twice and says two things");
            return Err(Error::HeaderMismatch(detail));
        }
    }
    Ok(())
}

/// The session that the request belongs to.
pub(super) fn session_id(headers: &HeaderMap) -> Option<&str> {
    text(headers, &SESSION)
}

/// The last event that a client has of the stream that it wants the rest of.
pub(super) fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    text(headers, &LAST_EVENT_ID)
}

/// The request says of itself that it only waits.
pub(super) fn is_subscription(headers: &HeaderMap) -> bool {
    headers.get(METHOD) == Some(&LISTEN)
}

/// A value that is not ASCII is there and equals nothing.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers
        .get(name)
        .map(|value| value.to_str().unwrap_or_default())
}

/// A missing type is forgiven, a wrong one is not: forms and plain text are what a foreign page can
/// send without asking.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return true;
    };
    let Ok(value) = value.to_str() else {
        return false;
    };
    let media = value.split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("application/json")
}

/// What the client can read. Whoever does not say can read JSON.
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

impl Accepts {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut accepts = Self {
            json: false,
            events: false,
        };
        for value in headers.get_all(ACCEPT) {
            let text = value.to_str().unwrap_or_default().to_ascii_lowercase();
            accepts.events |= text.contains("text/event-stream");
            accepts.json |= text.contains("json") || text.contains("*/*");
        }
        accepts.json |= !accepts.events;
        accepts
    }
}
