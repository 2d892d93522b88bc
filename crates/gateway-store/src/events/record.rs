//! An event as it is stored, and as `get_events` shows it.

use std::borrow::Cow;
use std::net::IpAddr;

use serde::Serialize;
use serde::ser::{SerializeStruct as _, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use upstream::time::{Offset, Timestamp};

use super::argument_types::ArgumentTypes;
use super::event::{Event, EventDetails, EventStatus, FinishedRequest, Outcome, short};
use super::trace::TraceId;

/// The source of all events.
const SOURCE: &str = "mcp-gateway";

/// The version of the format.
const SCHEMA_VERSION: &str = "1.0";

/// Limit for the metadata of an event, in bytes.
const MAX_METADATA_BYTES: usize = 16 * 1024;
/// The bytes that the metadata of most calls fits into.
const USUAL_METADATA_BYTES: usize = 512;

/// A stored event. Serializes to the format of seed 003.
#[derive(Clone, Debug)]
pub struct Record {
    /// The time at which it was recorded.
    pub timestamp: Timestamp,
    /// The id of its request.
    pub trace_id: TraceId,
    /// One of [`kind`](super::kind).
    pub event_type: Cow<'static, str>,
    /// Its status.
    pub status: EventStatus,
    /// The program that has recorded it.
    pub source: Cow<'static, str>,
    /// The gateway that has recorded it, where several can share the store.
    pub replica: Option<String>,
    /// The owner of the token of its request, for the limits of the store; not read from a store.
    pub(super) principal: Option<Box<str>>,
    /// Everything else, as the text of a JSON object.
    pub metadata: String,
}

impl Record {
    /// Converts the columns of a store.
    pub(super) fn from_columns(
        micros: i64,
        trace_id: [u8; 16],
        event_type: String,
        status: i64,
        source: String,
        metadata: String,
    ) -> Self {
        Self {
            timestamp: Timestamp::from_microsecond(micros).unwrap_or_default(),
            trace_id: TraceId::from_bytes(trace_id),
            event_type: event_type.into(),
            status: EventStatus::from_number(status),
            source: source.into(),
            replica: None,
            principal: None,
            metadata,
        }
    }

    /// Leaves out the rules of the operator, and makes a request that a role denies look like one for an unknown item: the caller's own events must not tell
    /// it what is there.
    pub fn hide_denial(&mut self) {
        let metadata = serde_json::from_str::<Map<String, Value>>(&self.metadata);
        let Ok(mut metadata) = metadata else { return };
        let is_denied = metadata.remove("denial").is_some();
        if is_denied {
            metadata.insert("outcome".to_owned(), json!(Outcome::Failed));
        }
        // `rule` and `decided_by` are of approvals.
        let hidden = ["allowed_by", "rule", "decided_by"];
        let hidden = hidden.map(|name| metadata.remove(name).is_some());
        if hidden.contains(&true) || is_denied {
            self.metadata = Value::Object(metadata).to_string();
        }
    }

    /// Microseconds since 1970-01-01 UTC.
    pub(super) fn micros(&self) -> i64 {
        self.timestamp.as_microsecond()
    }
}

impl From<Event> for Record {
    fn from(event: Event) -> Self {
        Self {
            timestamp: event.timestamp,
            trace_id: event.trace_id,
            event_type: event.event_type.into(),
            status: event.status,
            source: SOURCE.into(),
            replica: None,
            principal: event.principal().map(|name| short(name).into()),
            metadata: metadata(&event.details),
        }
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let timestamp = self.timestamp.display_with_offset(Offset::UTC);
        let mut event = serializer.serialize_struct("Event", 8)?;
        event.serialize_field("timestamp", &format!("{timestamp:.6}"))?;
        event.serialize_field("trace_id", &self.trace_id.to_string())?;
        event.serialize_field("status", &self.status)?;
        event.serialize_field("schema_version", SCHEMA_VERSION)?;
        event.serialize_field("event_type", &self.event_type)?;
        event.serialize_field("source", &self.source)?;
        match &self.replica {
            Some(replica) => event.serialize_field("replica", replica)?,
            None => event.skip_field("replica")?,
        }
        let metadata: Option<&RawValue> = serde_json::from_str(&self.metadata).ok();
        event.serialize_field("metadata", &metadata)?;
        event.end()
    }
}

fn metadata(details: &EventDetails) -> String {
    // Serializing these types cannot fail, and JSON is UTF-8.
    let json = match details {
        EventDetails::Request(request) => request_metadata(request),
        EventDetails::Facts(facts) => serde_json::to_string(facts).ok(),
    };
    let json = json.unwrap_or_default();
    match json.len() <= MAX_METADATA_BYTES {
        true => json,
        false => r#"{"cut":true}"#.to_owned(),
    }
}

/// The metadata of a request, with the types of its arguments, which are JSON already.
fn request_metadata(request: &FinishedRequest) -> Option<String> {
    let mut json = Vec::with_capacity(USUAL_METADATA_BYTES);
    serde_json::to_writer(&mut json, &RequestMetadata::new(request)).ok()?;
    let mut json = String::from_utf8(json).ok()?;
    json.pop();
    let arguments = request.arguments.as_ref();
    let arguments = arguments.map_or("null", ArgumentTypes::json);
    json.extend([r#","arguments":"#, arguments, "}"]);
    Some(json)
}

/// The metadata of a request but its arguments; for a tool call the first three fields are those of seed 003.
#[derive(Serialize)]
struct RequestMetadata<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<&'a str>,
    backend: Option<&'a str>,
    duration_ms: f64,
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    denial: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_by: Option<&'a str>,
    principal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    view: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    client: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    request_bytes: usize,
    response_bytes: usize,
    error_code: Option<i64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    hidden_characters: bool,
    #[serde(skip_serializing_if = "is_zero")]
    count: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde needs"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl<'a> RequestMetadata<'a> {
    fn new(request: &'a FinishedRequest) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "exact for a century")]
        let micros = request.duration.as_micros() as f64;
        let (method, item) = (request.method.as_deref(), short(&request.item));
        Self {
            tool_name: method.is_none().then_some(item),
            method,
            item: method.is_some().then_some(item),
            backend: request.backend.as_deref().map(short),
            duration_ms: micros / 1e3,
            outcome: request.outcome,
            denial: request.denial.as_deref().map(short),
            allowed_by: request.permission.as_deref().map(short),
            principal: request.principal.as_deref().map(short),
            view: request.view.as_deref(),
            client: request.sender.client.as_str(),
            address: request.sender.address,
            request_bytes: request.request_bytes,
            response_bytes: request.response_bytes,
            error_code: request.error_code,
            hidden_characters: request.has_hidden_characters,
            count: request.count,
        }
    }
}
