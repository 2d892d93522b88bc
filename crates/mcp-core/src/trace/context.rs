//! The context of a trace: W3C Trace Context and W3C Baggage.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::iter;
use std::sync::Arc;

use http::HeaderMap;

use crate::clock::unix_time;
use crate::http_headers::{list, text};

/// Limit of a `tracestate`, in bytes; the specification asks for at least 512.
const MAX_STATE_BYTES: usize = 1_024;
/// Limit of a `baggage`, in bytes; the specification asks for at least 8,192.
const MAX_BAGGAGE_BYTES: usize = 8_192;
/// Length of a `traceparent` of version 00.
const PARENT_LENGTH: usize = 55;
/// The flag of a trace that is exported.
const SAMPLED: u8 = 1;

/// The fields of a context, as headers or members of `_meta`.
#[derive(Clone, Copy, Default)]
pub struct TraceFields<'a> {
    /// `traceparent`.
    pub parent: Option<&'a str>,
    /// `tracestate`.
    pub state: Option<&'a str>,
    /// `baggage`.
    pub baggage: Option<&'a str>,
}

/// A span as others refer to it, and what a trace carries.
#[derive(Clone, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
    /// Most traces carry neither of these.
    state: Option<Arc<str>>,
    baggage: Option<Arc<str>>,
}

impl TraceContext {
    /// Parses the fields that a client has sent; `None` without a valid `traceparent`. A `tracestate` or `baggage`
    /// that is too long or no text is left out.
    pub fn parse(fields: TraceFields<'_>) -> Option<Self> {
        let parent = fields.parent?.as_bytes();
        let is_long = parent.get(PARENT_LENGTH) == Some(&b'-') && !parent.starts_with(b"00");
        if parent.len() != PARENT_LENGTH && !is_long || parent.starts_with(b"ff") {
            return None;
        }
        if [2, 35, 52].iter().any(|at| parent[*at] != b'-') {
            return None;
        }
        number(&parent[..2])?;
        let usable = |text: Option<&str>, most: usize| {
            let is_text = |byte: u8| matches!(byte, b' '..=b'~' | b'\t');
            let text = text.filter(|text| !text.is_empty() && text.len() <= most)?;
            text.bytes().all(is_text).then(|| text.into())
        };
        let context = Self {
            trace_id: number(&parent[3..35])?,
            span_id: number(&parent[36..52])? as u64,
            // The others have a meaning only in versions that are not known yet.
            flags: number(&parent[53..55])? as u8 & SAMPLED,
            state: usable(fields.state, MAX_STATE_BYTES),
            baggage: usable(fields.baggage, MAX_BAGGAGE_BYTES),
        };
        (context.trace_id != 0 && context.span_id != 0).then_some(context)
    }

    /// The context in the headers of a request.
    pub(crate) fn of_headers(headers: &HeaderMap) -> Option<Self> {
        let [state, baggage] = ["tracestate", "baggage"].map(|name| list(headers, name));
        Self::parse(TraceFields {
            parent: text(headers, "traceparent"),
            state: state.as_deref(),
            baggage: baggage.as_deref(),
        })
    }

    /// Returns the context of a request without a span of its own: that of its caller, so that the next span is a child
    /// of one that exists, or else a new trace.
    pub fn for_request(parent: Option<&Self>) -> Self {
        parent.cloned().unwrap_or_else(|| Self {
            trace_id: new_trace_id(),
            span_id: random_id(),
            // Without a tracer there is no decision: programs that have one shall keep their spans.
            flags: SAMPLED,
            state: None,
            baggage: None,
        })
    }

    /// The span with these ids of a trace and of itself, which carries on what its parent has.
    pub fn placed(
        (trace_id, span_id): (u128, u64),
        is_sampled: bool,
        parent: Option<&Self>,
    ) -> Self {
        Self {
            trace_id,
            span_id,
            flags: u8::from(is_sampled),
            state: parent.and_then(|parent| parent.state.clone()),
            baggage: parent.and_then(|parent| parent.baggage.clone()),
        }
    }

    /// The id of the trace; never 0.
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// The id of the span; never 0.
    pub fn span_id(&self) -> u64 {
        self.span_id
    }

    /// The flags of W3C Trace Context.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// True if the spans of the trace are exported.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Its `tracestate`.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Its `baggage`.
    pub fn baggage(&self) -> Option<&str> {
        self.baggage.as_deref()
    }

    /// The same context without its baggage, which may hold facts about a user: for servers of others.
    #[must_use]
    pub fn without_baggage(self) -> Self {
        Self {
            baggage: None,
            ..self
        }
    }

    /// Its fields, by the names that they have as headers and in `_meta`.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, Cow<'_, str>)> {
        let state = self.state().map(Cow::Borrowed);
        let baggage = self.baggage().map(Cow::Borrowed);
        let parent = ("traceparent", Cow::Owned(self.traceparent()));
        let carried = [("tracestate", state), ("baggage", baggage)];
        let carried = carried.into_iter();
        iter::once(parent).chain(carried.filter_map(|(name, value)| Some((name, value?))))
    }

    /// Its `traceparent`.
    pub fn traceparent(&self) -> String {
        let Self {
            trace_id,
            span_id,
            flags,
            ..
        } = self;
        format!("00-{trace_id:032x}-{span_id:016x}-{flags:02x}")
    }
}

impl fmt::Debug for TraceContext {
    /// Writes no baggage.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceContext({})", self.traceparent())
    }
}

/// Parses digits as the specification wants them: hexadecimal, in lower case.
fn number(digits: &[u8]) -> Option<u128> {
    let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let digits = str::from_utf8(digits).ok()?;
    u128::from_str_radix(digits, 16)
        .ok()
        .filter(|_| digits.as_bytes().iter().all(is_digit))
}

/// Returns the id of a new trace: the seconds since 1970 in 32 bits, and 96 random ones. An index of ids grows at its
/// end, where an index of random ids is written all over.
fn new_trace_id() -> u128 {
    let random = (u128::from(random_id()) << 64) | u128::from(random_id());
    (u128::from(unix_time().as_secs()) << 96) | (random >> 32)
}

/// Returns a random id, which is no secret.
fn random_id() -> u64 {
    // 0 stands for no id.
    RandomState::new().hash_one(0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn parse(parent: &str) -> Option<TraceContext> {
        TraceContext::parse(TraceFields {
            parent: Some(parent),
            ..TraceFields::default()
        })
    }

    #[test]
    fn only_valid_parents_are_parsed() {
        let context = parse(PARENT).unwrap();
        assert_eq!(context.traceparent(), PARENT);
        assert_eq!(context.span_id(), 0x00f0_67aa_0ba9_02b7);
        let later = format!("01{}-more", &PARENT[2..]);
        assert_eq!(parse(&later).unwrap().traceparent(), PARENT);
        let zero_trace = PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let zero_span = PARENT.replace("00f067aa0ba902b7", &"0".repeat(16));
        for bad in [
            "",
            "00-zz-evil-01",
            &zero_trace,
            &zero_span,
            &PARENT.to_uppercase(),
            &PARENT.replacen("00", "ff", 1),
            &PARENT.replacen("00", "0x", 1),
            &format!("{PARENT}-more"),
            &later.replace("-more", "more"),
            &PARENT[..54],
            &PARENT.replace("-01", "_01"),
            &PARENT.replace('f', "ä"),
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn flags_and_what_a_trace_carries_are_passed_on() {
        let fields = TraceFields {
            parent: Some(&PARENT.replace("-01", "-fe")),
            state: Some("vendor=1"),
            baggage: Some("user=ada"),
        };
        let context = TraceContext::parse(fields).unwrap();
        let placed =
            |is_sampled| TraceContext::placed((context.trace_id(), 1), is_sampled, Some(&context));
        let child = placed(true);
        assert_eq!(context.flags(), 0);
        assert_eq!((child.flags(), child.trace_id()), (1, context.trace_id()));
        assert!(!format!("{child:?}").contains("ada"));
        assert_ne!(child.span_id(), context.span_id());
        assert_eq!(child.state(), Some("vendor=1"));
        assert_eq!(child.baggage(), Some("user=ada"));
        assert!(!placed(false).is_sampled());
        let without = child.clone().without_baggage();
        assert_eq!((without.state(), without.baggage()), (child.state(), None));
        assert_eq!(without.traceparent(), child.traceparent());
    }

    #[test]
    fn unusable_state_and_baggage_are_left_out() {
        for bad in ["", "a\nb", "ä", &"x".repeat(MAX_BAGGAGE_BYTES + 1)] {
            let context = TraceContext::parse(TraceFields {
                parent: Some(PARENT),
                state: Some(bad),
                baggage: Some(bad),
            });
            let context = context.unwrap();
            assert_eq!((context.state(), context.baggage()), (None, None));
        }
    }

    #[test]
    fn parent_is_passed_on() {
        let parent = parse(PARENT).unwrap();
        assert_eq!(TraceContext::for_request(Some(&parent)), parent);
        let new = TraceContext::for_request(None);
        assert!(new.is_sampled() && new.trace_id() != 0);
        let next = TraceContext::for_request(None);
        assert_ne!(new.trace_id(), next.trace_id());
        assert!(new.trace_id() >> 96 <= next.trace_id() >> 96);
    }
}
