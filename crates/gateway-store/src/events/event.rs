//! Events before they are stored.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::server::{ClientName, DeniedBy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use upstream::text::truncate;
use upstream::time::Timestamp;

use super::argument_types::{ArgumentTypes, shown};
use super::own_texts::{OwnTexts, unescaped};
use super::trace::TraceId;

/// Limits for the text of a failure, in characters: of what is read of it, and of what is recorded.
const MAX_READ_CHARS: usize = 2_000;
const MAX_FAILURE_CHARS: usize = 200;

/// Limit for a text from outside, in characters.
const MAX_TEXT_CHARS: usize = 256;

/// In the event of several requests, in place of what each of them has of its own.
const VARIOUS: &str = "various";

/// The types of events; those up to `TOOL_CALL` are of seed 003.
pub mod kind {
    /// The gateway has started.
    pub const STARTED: &str = "gateway.started";
    /// The gateway is stopping.
    pub const STOPPED: &str = "gateway.stopped";
    /// A backend was configured.
    pub const BACKEND_REGISTERED: &str = "gateway.backend_registered";
    /// A configured backend is not used.
    pub const BACKEND_DISABLED: &str = "gateway.backend_disabled";
    /// A backend is running.
    pub const BACKEND_STARTED: &str = "gateway.backend_started";
    /// A backend has failed.
    pub const BACKEND_FAILED: &str = "gateway.backend_failed";
    /// A call of a backend's tool has ended.
    pub const TOOL_CALL: &str = "gateway.tool_call";
    /// Any other request has ended: for a resource, a prompt or a tool of the gateway itself, or one that was
    /// refused.
    pub const REQUEST: &str = "gateway.request";
    /// Requests were refused before they were read.
    pub const REQUEST_REFUSED: &str = "gateway.request_refused";
    /// A backend was stopped on purpose.
    pub const BACKEND_STOPPED: &str = "gateway.backend_stopped";
    /// The definition of a tool has changed, or is new and held back.
    pub const TOOL_CHANGED: &str = "gateway.tool_changed";
    /// A definition of a tool was approved or refused.
    pub const TOOL_DECIDED: &str = "gateway.tool_decided";
    /// The user of a client was asked about a call.
    pub const CONFIRMATION: &str = "gateway.confirmation";
    /// A call waits for an operator, or has ended that wait.
    pub const APPROVAL: &str = "gateway.approval";
    /// A changed configuration was applied, or has an error.
    pub const CONFIG_CHANGED: &str = "gateway.config_changed";
    /// The store was removed or replaced; its earlier events are not in this one.
    pub const EVENTS_REPLACED: &str = "gateway.events_replaced";
    /// Events were lost.
    pub const EVENTS_DROPPED: &str = "gateway.events_dropped";

    /// All types, by which events are found.
    pub const ALL: [&str; 17] = [
        STARTED,
        STOPPED,
        BACKEND_REGISTERED,
        BACKEND_DISABLED,
        BACKEND_STARTED,
        BACKEND_FAILED,
        BACKEND_STOPPED,
        TOOL_CALL,
        REQUEST,
        REQUEST_REFUSED,
        TOOL_CHANGED,
        TOOL_DECIDED,
        CONFIRMATION,
        APPROVAL,
        CONFIG_CHANGED,
        EVENTS_REPLACED,
        EVENTS_DROPPED,
    ];

    /// Checks a type by which events are to be found.
    ///
    /// # Errors
    /// A text with all types, if there is none of this name.
    pub fn check(name: &str) -> Result<(), String> {
        match ALL.contains(&name) {
            true => Ok(()),
            false => Err(format!("must be one of {}", ALL.join(", "))),
        }
    }
}

/// The status of an event, by which `get_events` can filter.
#[expect(
    missing_docs,
    reason = "the documentation of a variant would be a part of the tool's schema"
)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum EventStatus {
    Success,
    Failure,
    Pending,
}

impl EventStatus {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Success, Self::Failure, Self::Pending];

    /// The number in the column `status`.
    pub(super) fn number(self) -> i16 {
        self as i16
    }

    /// Returns the status with this number; a number of a later version counts as pending.
    pub(super) fn from_number(number: i64) -> Self {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|status| i64::from(status.number()) == number);
        found.unwrap_or(Self::Pending)
    }
}

/// The end of a request. Each has exactly one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The backend answered with a result.
    Ok,
    /// The configuration denies the tool, or the role of the caller; the call was not forwarded.
    Denied,
    /// The backend answered with an error or could not be reached.
    Failed,
    /// The backend did not answer in time.
    TimedOut,
    /// The client cancelled it or disconnected.
    #[default]
    Cancelled,
}

impl Outcome {
    /// Its name, as in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A request that has ended.
#[derive(Clone, Debug, Default)]
pub struct FinishedRequest {
    /// Its method; `None` for a call of a backend's tool.
    pub method: Option<Arc<str>>,
    /// The published name of the tool or prompt, or the URI of the resource.
    pub item: Arc<str>,
    /// Its end.
    pub outcome: Outcome,
    /// The part of the configuration that has denied it, or the person, if its outcome is [`Outcome::Denied`].
    pub denied_by: Option<DeniedBy>,
    /// The role and the rule that have denied it.
    pub denial: Option<Arc<str>>,
    /// The name of the client's token, if it has one.
    pub principal: Option<Arc<str>>,
    /// The view of the client.
    pub view: Option<Arc<str>>,
    /// The role and the rule that have allowed it.
    pub permission: Option<Arc<str>>,
    /// The operator who has approved it.
    pub approved_by: Option<Arc<str>>,
    /// The name that the client gives itself.
    pub client: ClientName,
    /// The address of the client; `None` over stdio.
    pub address: Option<IpAddr>,
    /// The key of the backend that has answered, or would have.
    pub backend: Option<Arc<str>>,
    /// From the request to its end.
    pub duration: Duration,
    /// Bytes of the arguments.
    pub request_bytes: usize,
    /// Bytes of the result.
    pub response_bytes: usize,
    /// The types of its arguments.
    pub arguments: Option<ArgumentTypes>,
    /// The code of the JSON-RPC error, if it ended with one.
    pub error_code: Option<i64>,
    /// The kind and the text of its failure.
    pub failure: Option<RequestFailure>,
}

/// The kind and the text of a failure, for those who read the log; see [`FinishedRequest::fail`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFailure {
    /// A word such as `timeout` or `tool_error`.
    pub(super) kind: Arc<str>,
    /// The beginning of its text, without secrets and texts of the request, and with hidden characters by their numbers.
    pub(super) text: String,
}

impl FinishedRequest {
    /// True if the gateway itself has refused it: it was denied, or is about nothing that is there. A caller cannot tell
    /// these apart by the number of events.
    fn is_refused(&self) -> bool {
        let is_unknown = self.backend.is_none() && self.kind().ends_with("_not_found");
        self.outcome == Outcome::Denied || self.outcome == Outcome::Failed && is_unknown
    }

    /// The kind of its failure; empty without one.
    fn kind(&self) -> &str {
        let failure = self.failure.as_ref();
        failure.map_or("", |failure| &failure.kind)
    }

    /// Notes the failure of this kind that the content of a tool's result tells.
    pub fn fail_with_content(&mut self, kind: &str, content: &str, own: &OwnTexts) {
        let blocks: Vec<Value> = serde_json::from_str(content).unwrap_or_default();
        let text = blocks.iter().find_map(|block| block["text"].as_str());
        self.fail(kind, text.unwrap_or_default(), own);
    }

    /// Notes a failure of this kind. Of a long `text` only the beginning is read. It may quote the texts of the request,
    /// which are `own`: those that are not in the event anyway are hidden.
    pub fn fail(&mut self, kind: &str, text: &str, own: &OwnTexts) {
        let end = text.char_indices().nth(MAX_READ_CHARS);
        let text = end.map_or(text, |(end, _)| &text[..end]);
        let arguments = self.arguments.as_ref().map_or("", ArgumentTypes::json);
        let backend = self.backend.as_deref().unwrap_or_default();
        let known = [&*self.item, backend, arguments];
        let text = own.hide_in(&shown(&unescaped(text)), &known);
        self.failure = Some(RequestFailure {
            kind: kind.into(),
            text: truncate(&text, MAX_FAILURE_CHARS),
        });
    }
}

/// A new event. Contains no secret, and no value of an argument that the operator has not named.
#[derive(Clone, Debug)]
pub struct Event {
    pub(super) timestamp: Timestamp,
    pub(super) trace_id: TraceId,
    pub(super) event_type: &'static str,
    pub(super) status: EventStatus,
    pub(super) details: EventDetails,
    /// The number of equal denials that it stands for; 1 for any other event.
    pub(crate) count: u64,
}

#[derive(Clone, Debug)]
pub(super) enum EventDetails {
    Request(Box<FinishedRequest>),
    Facts(Value),
}

impl Event {
    /// The event of a request that has just ended.
    pub fn finished(trace_id: TraceId, mut request: FinishedRequest) -> Self {
        // Cut here and not by the writer, to save memory in the queue.
        if request.item.len() > MAX_TEXT_CHARS {
            request.item = short(&request.item).into();
        }
        // Such as of a request whose client has left.
        if request.outcome != Outcome::Ok && request.failure.is_none() {
            request.fail(request.outcome.name(), "", &OwnTexts::default());
        }
        let status = match request.outcome {
            Outcome::Ok => EventStatus::Success,
            _ => EventStatus::Failure,
        };
        Self {
            timestamp: Timestamp::now(),
            trace_id,
            event_type: match request.method {
                None => kind::TOOL_CALL,
                Some(_) => kind::REQUEST,
            },
            status,
            details: EventDetails::Request(Box::new(request)),
            count: 1,
        }
    }

    /// The request that it is about.
    pub(super) fn request(&self) -> Option<&FinishedRequest> {
        match &self.details {
            EventDetails::Request(request) => Some(request),
            EventDetails::Facts(_) => None,
        }
    }

    /// The principal of a request that was denied, refused before it was read, or about nothing that is there, and the rest
    /// of what equal ones have in common. `None` for other events.
    pub(super) fn denial(&self) -> Option<(Option<Arc<str>>, String)> {
        match &self.details {
            EventDetails::Facts(facts) if self.event_type == kind::REQUEST_REFUSED => {
                let principal = facts["principal"].as_str().map(Arc::from);
                Some((principal, facts["reason"].to_string()))
            }
            EventDetails::Request(denied) if denied.is_refused() => {
                let arguments = denied.arguments.as_ref();
                let kind = format!(
                    "{} {} {:?} {:?} {} {}",
                    denied.method.as_deref().unwrap_or_default(),
                    denied.view.as_deref().unwrap_or_default(),
                    denied.item,
                    denied.denied_by,
                    denied.kind(),
                    arguments.map_or("", |arguments| arguments.values())
                );
                Some((denied.principal.clone(), kind))
            }
            _ => None,
        }
    }

    /// Leaves out what the denials of various kinds do not have in common.
    pub(super) fn generalize(&mut self) {
        if let EventDetails::Request(request) = &mut self.details {
            request.item = VARIOUS.into();
            request.arguments = None;
            request.denial = request.denied_by.map(|_| VARIOUS.into());
            if let Some(failure) = &mut request.failure {
                failure.text.clear();
            }
        }
    }

    /// Any other event, with a new trace id. `facts` is a JSON object.
    pub fn new(event_type: &'static str, status: EventStatus, facts: Value) -> Self {
        Self {
            timestamp: Timestamp::now(),
            trace_id: TraceId::new_v4(),
            event_type,
            status,
            details: EventDetails::Facts(facts),
            count: 1,
        }
    }
}

/// The minute of a time, counted from 1970.
pub(super) fn minute_of(time: Timestamp) -> i64 {
    time.as_second() / 60
}

/// Cuts a text from outside to `MAX_TEXT_CHARS`, and at a NUL, which PostgreSQL does not accept.
pub(super) fn short(text: &str) -> &str {
    // The length in bytes is checked first: it is never below that in characters.
    let cut = (text.len() > MAX_TEXT_CHARS).then(|| text.char_indices().nth(MAX_TEXT_CHARS));
    let text = cut.flatten().map_or(text, |(at, _)| &text[..at]);
    text.split('\0').next().unwrap_or(text)
}
