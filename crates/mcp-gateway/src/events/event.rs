//! What happened.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use upstream::time::Timestamp;

use super::trace::TraceId;
use crate::shape::Shape;

/// Characters of a text that came from outside.
const MAX_TEXT: usize = 256;

/// The types of the gateway's own events. Those up to `TOOL_CALL` have the names of seed 003.
pub(crate) mod kind {
    /// The gateway serves.
    pub(crate) const STARTED: &str = "gateway.started";
    /// The gateway was told to stop.
    pub(crate) const STOPPED: &str = "gateway.stopped";
    /// A backend was configured.
    pub(crate) const BACKEND_REGISTERED: &str = "gateway.backend_registered";
    /// A backend can be used.
    pub(crate) const BACKEND_STARTED: &str = "gateway.backend_started";
    /// A backend cannot be used (any more).
    pub(crate) const BACKEND_FAILED: &str = "gateway.backend_failed";
    /// A tool was called; the call is over.
    pub(crate) const TOOL_CALL: &str = "gateway.tool_call";
    /// A backend was ended on purpose.
    pub(crate) const BACKEND_STOPPED: &str = "gateway.backend_stopped";
    /// The description or the schema of a tool is not what it was.
    pub(crate) const TOOL_CHANGED: &str = "gateway.tool_changed";
    /// A changed configuration was taken over, or refused.
    pub(crate) const CONFIG_CHANGED: &str = "gateway.config_changed";
    /// The log itself could not keep up.
    pub(crate) const EVENTS_DROPPED: &str = "gateway.events_dropped";
}

/// The three states by which events can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    /// It went well.
    Success,
    /// It did not.
    Failure,
    /// It is not over.
    Pending,
}

impl Status {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Success, Self::Failure, Self::Pending];

    /// Its name in events and queries.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Pending => "pending",
        }
    }

    /// Its number in a store.
    pub(super) fn number(self) -> i16 {
        self as i16
    }

    /// The status with this number; an unknown one can only be a later addition.
    pub(super) fn from_number(number: i64) -> Self {
        let known = Self::ALL
            .into_iter()
            .find(|status| i64::from(status.number()) == number);
        known.unwrap_or(Self::Pending)
    }
}

/// How a call ended. Each call has exactly one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The backend answered with a result.
    Ok,
    /// It was not allowed, and was not forwarded.
    Denied,
    /// The backend answered with an error or could not be reached.
    Failed,
    /// No answer in time.
    TimedOut,
    /// The client took it back.
    Cancelled,
}

impl Outcome {
    /// Its name in the metadata.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
        }
    }

    /// Under which status it is found.
    pub(crate) fn status(self) -> Status {
        match self {
            Self::Ok => Status::Success,
            Self::Denied | Self::Failed | Self::TimedOut | Self::Cancelled => Status::Failure,
        }
    }
}

/// A call that is over.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// How it ended.
    pub(crate) outcome: Outcome,
    /// Who called, where that is known.
    pub(crate) principal: Option<Arc<str>>,
    /// Who was to answer; `None` for the gateway itself and for names that nobody has.
    pub(crate) backend: Option<Arc<str>>,
    /// The name by which it was called. Longer ones than a tool can have are cut.
    pub(crate) tool: Arc<str>,
    /// From the request to its end.
    pub(crate) duration: Duration,
    /// Bytes of the arguments.
    pub(crate) request_bytes: usize,
    /// Bytes of the result.
    pub(crate) response_bytes: usize,
    /// The result holds characters that people cannot see.
    pub(crate) hides_something: bool,
    /// What the arguments look like.
    pub(crate) arguments: Shape,
    /// The code of the JSON-RPC error, if it ended with one.
    pub(crate) error_code: Option<i64>,
}

/// Something that happened. Holds no value of an argument and no secret.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(super) timestamp: Timestamp,
    pub(super) trace_id: TraceId,
    pub(super) event_type: Cow<'static, str>,
    pub(super) status: Status,
    pub(super) details: Details,
}

#[derive(Clone, Debug)]
pub(super) enum Details {
    Call(Box<Call>),
    Facts(Map<String, Value>),
}

impl Event {
    /// The end of a call, now.
    pub(crate) fn call(trace_id: TraceId, mut call: Call) -> Self {
        // Whatever a client sends as a name waits in the queue too.
        if call.tool.len() > MAX_TEXT {
            call.tool = short(&call.tool).into();
        }
        let (status, details) = (call.outcome.status(), Details::Call(Box::new(call)));
        Self::with(trace_id, Cow::Borrowed(kind::TOOL_CALL), status, details)
    }

    /// Anything else, now, with what else is to be known about it.
    pub(crate) fn new(
        trace_id: TraceId,
        event_type: impl Into<Cow<'static, str>>,
        status: Status,
        facts: Map<String, Value>,
    ) -> Self {
        Self::with(trace_id, event_type.into(), status, Details::Facts(facts))
    }

    fn with(
        trace_id: TraceId,
        event_type: Cow<'static, str>,
        status: Status,
        details: Details,
    ) -> Self {
        Self {
            timestamp: Timestamp::now(),
            trace_id,
            event_type,
            status,
            details,
        }
    }
}

/// A text from outside, cut to what a name may take. NUL, which not every store takes, ends it.
pub(super) fn short(text: &str) -> &str {
    // Most are short enough, whatever they are made of.
    let cut = (text.len() > MAX_TEXT).then(|| text.char_indices().nth(MAX_TEXT));
    let text = cut.flatten().map_or(text, |(at, _)| &text[..at]);
    text.split('\0').next().unwrap_or(text)
}
