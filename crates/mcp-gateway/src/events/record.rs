//! An event as it is kept, and as `get_events` shows it.

use std::borrow::Cow;
use std::fmt::Write as _;

use mcp_core::jsonrpc::push_quoted;
use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use serde_json::value::RawValue;

use super::event::{Call, Details, Event, Status, short};
use super::time::Timestamp;
use super::trace::TraceId;

/// The version of the format.
const SCHEMA_VERSION: &str = "1.0";

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
    pub event_type: Cow<'static, str>,
    /// How it went.
    pub status: Status,
    /// Who tells it.
    pub source: Cow<'static, str>,
    /// Everything else: the text of a JSON object.
    pub metadata: String,
}

impl From<Event> for Record {
    fn from(event: Event) -> Self {
        Self {
            timestamp: event.timestamp,
            trace_id: event.trace_id,
            event_type: cut(event.event_type),
            status: event.status,
            source: cut(event.source),
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
        let metadata: Option<&RawValue> = serde_json::from_str(&self.metadata).ok();
        event.serialize_field("metadata", &metadata)?;
        event.end()
    }
}

fn metadata(details: &Details) -> String {
    let json = match details {
        Details::Call(call) => of_call(call),
        // An object with names for keys always serialises.
        Details::Facts(facts) => serde_json::to_string(facts).unwrap_or_default(),
    };
    match json.len() <= MAX_FACTS {
        true => json,
        false => r#"{"cut":true}"#.to_owned(),
    }
}

/// The metadata of a call; the first three fields are those of seed 003. Put together by hand: each
/// call has it, and its arguments are JSON already.
fn of_call(call: &Call) -> String {
    let name = |json: &mut String, name: Option<&str>| match name {
        Some(name) => push_quoted(json, short(name)),
        None => json.push_str("null"),
    };
    let micros = call.duration.as_micros();
    let mut json = String::with_capacity(384);
    json.push_str(r#"{"tool_name":"#);
    name(&mut json, Some(&call.tool));
    json.push_str(r#","backend":"#);
    name(&mut json, call.backend.as_deref());
    // Into a string nothing fails.
    let _ = write!(
        json,
        r#","duration_ms":{}.{:03},"outcome":"{}","principal":"#,
        micros / 1_000,
        micros % 1_000,
        call.outcome.name(),
    );
    name(&mut json, call.principal.as_deref());
    let _ = write!(
        json,
        r#","request_bytes":{},"response_bytes":{},"arguments":{},"error_code":"#,
        call.request_bytes,
        call.response_bytes,
        call.arguments.json(),
    );
    let _ = match call.error_code {
        Some(code) => write!(json, "{code}"),
        None => json.write_str("null"),
    };
    if call.hides_something {
        json.push_str(r#","hidden_characters":true"#);
    }
    json.push('}');
    json
}

/// The same for one that is most often ours.
fn cut(text: Cow<'static, str>) -> Cow<'static, str> {
    match text {
        Cow::Borrowed(ours) => ours.into(),
        Cow::Owned(text) => short(&text).to_owned().into(),
    }
}
