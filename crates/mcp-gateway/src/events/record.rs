//! An event as it is kept, and as `get_events` shows it.

use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::event::{Call, Details, Event, Status};
use super::time::Timestamp;
use super::trace::TraceId;

/// The version of the format.
const SCHEMA_VERSION: &str = "1.0";

/// Characters of a text that came from outside.
pub(super) const MAX_TEXT: usize = 256;

/// Bytes of the facts about one event.
const MAX_FACTS: usize = 16 * 1024;

/// An event in the store. Serialises to the format of seed 003.
#[derive(Clone, Debug)]
pub struct Record {
    /// When it happened.
    pub timestamp: Timestamp,
    /// To which request it belongs.
    pub trace_id: TraceId,
    /// What kind of event it is, as in [`kind`](super::kind).
    pub event_type: String,
    /// How it went.
    pub status: Status,
    /// Who tells it.
    pub source: String,
    /// Everything else: a JSON object.
    pub metadata: Box<RawValue>,
}

impl From<Event> for Record {
    fn from(event: Event) -> Self {
        Self {
            timestamp: event.timestamp,
            trace_id: event.trace_id,
            event_type: short(&event.event_type).to_owned(),
            status: event.status,
            source: short(&event.source).to_owned(),
            metadata: metadata(&event.details),
        }
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut event = serializer.serialize_struct("Event", 7)?;
        event.serialize_field("timestamp", &self.timestamp.to_string())?;
        event.serialize_field("trace_id", &self.trace_id.to_string())?;
        event.serialize_field("status", self.status.name())?;
        event.serialize_field("schema_version", SCHEMA_VERSION)?;
        event.serialize_field("event_type", &self.event_type)?;
        event.serialize_field("source", &self.source)?;
        event.serialize_field("metadata", &self.metadata)?;
        event.end()
    }
}

fn metadata(details: &Details) -> Box<RawValue> {
    let json = match details {
        Details::Call(call) => to_raw_value(&CallFacts(call)),
        Details::Facts(facts) => to_raw_value(facts),
    };
    json.ok()
        .filter(|json| json.get().len() <= MAX_FACTS)
        .or_else(|| to_raw_value(&json!({"cut": true})).ok())
        .unwrap_or_else(|| RawValue::NULL.to_owned())
}

/// The metadata of a call; the first three fields are those of seed 003.
struct CallFacts<'a>(&'a Call);

impl Serialize for CallFacts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(call) = self;
        let arguments: Option<&RawValue> = serde_json::from_str(call.arguments.json()).ok();
        let mut facts =
            serializer.serialize_struct("Call", 9 + usize::from(call.hides_something))?;
        facts.serialize_field("tool_name", short(&call.tool))?;
        facts.serialize_field("backend", &call.backend.as_deref().map(short))?;
        facts.serialize_field("duration_ms", &millis(call))?;
        facts.serialize_field("outcome", call.outcome.name())?;
        facts.serialize_field("principal", &call.principal.as_deref().map(short))?;
        facts.serialize_field("request_bytes", &call.request_bytes)?;
        facts.serialize_field("response_bytes", &call.response_bytes)?;
        facts.serialize_field("arguments", &arguments)?;
        facts.serialize_field("error_code", &call.error_code)?;
        if call.hides_something {
            facts.serialize_field("hidden_characters", &true)?;
        }
        facts.end()
    }
}

/// Milliseconds, to the microsecond.
fn millis(call: &Call) -> f64 {
    call.duration.as_micros() as f64 / 1_000.0
}

/// A text from outside, cut to what a name may take. NUL, which not every store takes, ends it.
pub(super) fn short(text: &str) -> &str {
    let cut = text
        .char_indices()
        .nth(MAX_TEXT)
        .map_or(text.len(), |(at, _)| at);
    let text = &text[..cut];
    text.split('\0').next().unwrap_or(text)
}
