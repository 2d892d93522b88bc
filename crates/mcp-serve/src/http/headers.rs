//! The headers of a request.

use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, ORIGIN, TRANSFER_ENCODING,
};
use mcp_core::era::{Era, Hints};
use mcp_core::error::Error;
use mcp_core::trace::TraceFields;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Header names come in lower case.
const PARAM_PREFIX: &str = "mcp-param-";

/// The headers that this server reads, found in one pass over all: a pass for each question took 3,000
/// instructions of a request with the headers of 2026-07-28.
pub(super) struct Head<'a> {
    pub(super) host: Option<&'a HeaderValue>,
    pub(super) origin: Option<&'a HeaderValue>,
    /// A `Host` or an `Origin` that is repeated.
    pub(super) repeated: Option<&'a HeaderName>,
    /// Equals no token if the header is repeated: which one the client means is unknown.
    pub(super) authorization: Option<&'a [u8]>,
    /// A transfer encoding other than one `chunked`, which hyper takes for chunked (RFC 9112, 6.1).
    pub(super) has_ambiguous_end: bool,
    /// A header of the protocol that is repeated with another value.
    ambiguous: Option<&'a HeaderName>,
    protocol: ProtocolHeaders<&'a HeaderValue>,
    content_type: Option<&'a HeaderValue>,
    accepts: Option<Accepts>,
    is_unencoded: bool,
    sends_mcp_headers: bool,
    repeats_arguments: bool,
    /// A header of a trace is repeated.
    repeats_trace: bool,
    all: &'a HeaderMap,
}

/// The headers that decide the era, and those that repeat the body.
pub(super) struct ProtocolHeaders<T = HeaderValue> {
    version: Option<T>,
    method: Option<T>,
    name: Option<T>,
    session: Option<T>,
    traceparent: Option<T>,
    tracestate: Option<T>,
    baggage: Option<T>,
}

/// The conclusions from the headers that are needed after the request is authenticated.
pub(super) struct HeaderFacts {
    /// The era that the headers indicate.
    pub(super) era: Era,
    pub(super) accepts: Accepts,
    pub(super) is_json: bool,
    /// The body is not encoded: no content encoding is supported.
    pub(super) is_unencoded: bool,
    /// The headers of the protocol; most requests have none.
    pub(super) protocol: Option<Box<ProtocolHeaders>>,
    /// The request only waits (2026-07-28, "subscriptions/listen").
    pub(super) is_subscription: bool,
    /// Some headers repeat arguments of a call.
    pub(super) repeats_arguments: bool,
}

impl<'a> Head<'a> {
    pub(super) fn read(headers: &'a HeaderMap) -> Self {
        let mut head = Self {
            host: None,
            origin: None,
            repeated: None,
            authorization: None,
            has_ambiguous_end: false,
            ambiguous: None,
            protocol: ProtocolHeaders {
                version: None,
                method: None,
                name: None,
                session: None,
                traceparent: None,
                tracestate: None,
                baggage: None,
            },
            content_type: None,
            accepts: None,
            is_unencoded: true,
            sends_mcp_headers: false,
            repeats_arguments: false,
            repeats_trace: false,
            all: headers,
        };
        let mut is_chunked = false;
        for (name, value) in headers {
            // Names of HTTP are numbers, so these comparisons cost less than those of texts.
            if *name == HOST {
                head.repeated = head.host.replace(value).and(Some(name)).or(head.repeated);
            } else if *name == ORIGIN {
                head.repeated = head.origin.replace(value).and(Some(name)).or(head.repeated);
            } else if *name == AUTHORIZATION {
                let is_repeated = head.authorization.is_some();
                head.authorization = Some(if is_repeated { b"" } else { value.as_bytes() });
            } else if *name == TRANSFER_ENCODING {
                let is_known = value.as_bytes().eq_ignore_ascii_case(b"chunked");
                head.has_ambiguous_end |= !is_known || is_chunked;
                is_chunked = true;
            } else if *name == CONTENT_TYPE {
                head.content_type = head.content_type.or(Some(value));
            } else if *name == CONTENT_ENCODING {
                head.is_unencoded &= value.as_bytes().eq_ignore_ascii_case(b"identity");
            } else if *name == ACCEPT {
                head.accepts.get_or_insert_default().add(value);
            } else if name.as_str().starts_with("mcp-") || is_of_trace(name) {
                head.read_protocol(name, value);
            }
        }
        head
    }

    fn read_protocol(&mut self, name: &'a HeaderName, value: &'a HeaderValue) {
        self.sends_mcp_headers = true;
        let field = match name.as_str() {
            "mcp-protocol-version" => &mut self.protocol.version,
            "mcp-method" => &mut self.protocol.method,
            "mcp-name" => &mut self.protocol.name,
            "mcp-session-id" => &mut self.protocol.session,
            // Repeated ones of a trace are no reason to refuse a request.
            name => {
                let field = match name {
                    "traceparent" => &mut self.protocol.traceparent,
                    "tracestate" => &mut self.protocol.tracestate,
                    "baggage" => &mut self.protocol.baggage,
                    name => {
                        self.repeats_arguments |= name.starts_with(PARAM_PREFIX);
                        return;
                    }
                };
                self.repeats_trace |= field.is_some();
                field.get_or_insert(value);
                return;
            }
        };
        // Some clients send every header twice.
        if *field.get_or_insert(value) != value {
            self.ambiguous = Some(name);
        }
    }

    /// Rejects a header of the protocol that is repeated with another value: a proxy may route by one value
    /// and this server by the other.
    ///
    /// # Errors
    /// `HeaderMismatch`, naming the header.
    pub(super) fn check_unambiguous(&self) -> Result<(), Error> {
        let Some(name) = self.ambiguous else {
            return Ok(());
        };
        let detail = format!("the {name} header is repeated with another value");
        Err(Error::HeaderMismatch(detail))
    }

    /// The era that the headers indicate.
    pub(super) fn era(&self) -> Era {
        Era::from_headers(&Hints {
            protocol_version: self.protocol.version.map(text),
            ..Hints::default()
        })
    }

    fn protocol_headers(&self) -> ProtocolHeaders {
        let headers = self.protocol.to_owned();
        match self.repeats_trace {
            false => headers,
            true => ProtocolHeaders {
                tracestate: joined(self.all, "tracestate"),
                baggage: joined(self.all, "baggage"),
                ..headers
            },
        }
    }

    pub(super) fn facts(&self) -> HeaderFacts {
        let is_json = |value: &HeaderValue| {
            value == "application/json"
                || media_type(value.as_bytes()).eq_ignore_ascii_case(b"application/json")
        };
        HeaderFacts {
            era: self.era(),
            accepts: self.accepts.unwrap_or_default().or_json(),
            // Also for a missing type. A web page can send forms and plain text to another origin without a
            // preflight request, so these are refused.
            is_json: self.content_type.is_none_or(is_json),
            is_unencoded: self.is_unencoded,
            repeats_arguments: self.repeats_arguments,
            protocol: self
                .sends_mcp_headers
                .then(|| self.protocol_headers().into()),
            is_subscription: self
                .protocol
                .method
                .is_some_and(|method| method == "subscriptions/listen"),
        }
    }
}

impl ProtocolHeaders<&HeaderValue> {
    fn to_owned(&self) -> ProtocolHeaders {
        ProtocolHeaders {
            version: self.version.cloned(),
            method: self.method.cloned(),
            name: self.name.cloned(),
            session: self.session.cloned(),
            traceparent: self.traceparent.cloned(),
            tracestate: self.tracestate.cloned(),
            baggage: self.baggage.cloned(),
        }
    }
}

impl ProtocolHeaders {
    /// The id of the session that the request names: to look for the header again takes 400 instructions.
    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_ref().map(text)
    }

    pub(super) fn hints(&self) -> Hints<'_> {
        Hints {
            protocol_version: self.version.as_ref().map(text),
            method: self.method.as_ref().map(text),
            name: self.name.as_ref().map(text),
            trace: TraceFields {
                parent: self.traceparent.as_ref().map(text),
                state: self.tracestate.as_ref().map(text),
                baggage: self.baggage.as_ref().map(text),
            },
            ..Hints::default()
        }
    }
}

/// Returns a header whose value is a list, and which may be on several lines (W3C Trace Context, 3.3.1.1; W3C Baggage,
/// 3.3). A line that is there twice counts once: some clients send every header twice.
fn joined(headers: &HeaderMap, name: &str) -> Option<HeaderValue> {
    let mut lines: Vec<&[u8]> = Vec::new();
    for line in headers.get_all(name) {
        if !lines.contains(&line.as_bytes()) {
            lines.push(line.as_bytes());
        }
    }
    HeaderValue::from_bytes(&lines.join(&b","[..]))
        .ok()
        .filter(|value| !value.is_empty())
}

/// True for the headers of W3C Trace Context and W3C Baggage.
pub(super) fn is_of_trace(name: &HeaderName) -> bool {
    matches!(name.as_str(), "traceparent" | "tracestate" | "baggage")
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

/// Returns a value as text; one that is not ASCII becomes empty and equals no valid value.
fn text(value: &HeaderValue) -> &str {
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
    fn add(&mut self, value: &HeaderValue) {
        if value == "application/json" {
            self.json = true;
            return;
        }
        for media in value.as_bytes().split(|byte| *byte == b',') {
            let media = media_type(media);
            let is = |name: &[u8]| media.eq_ignore_ascii_case(name);
            self.events |= is(b"text/event-stream");
            self.json |= is(b"application/json") || is(b"*/*") || is(b"application/*");
        }
    }

    fn or_json(self) -> Self {
        let json = self.json || !self.events;
        Self { json, ..self }
    }
}

#[cfg(test)]
mod tests;
