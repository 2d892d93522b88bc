//! An event as it is stored, and as `get_events` shows it.

use std::borrow::Cow;
use std::net::IpAddr;

use hmac_sha256::Hash;
use serde::Serialize;
use serde::ser::{SerializeStruct as _, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;
use upstream::text::{hexadecimal, visible};
use upstream::time::{Offset, Timestamp};

use super::event::{Event, EventDetails, EventStatus, FinishedRequest, Outcome, minute_of, short};
use super::trace::TraceId;

/// The source of all events: the program that has recorded them.
pub(super) const SOURCE: &str = "mcp-gateway";

/// The version of the format.
const SCHEMA_VERSION: &str = "1.0";

/// Limit for the metadata of an event, in bytes.
const MAX_METADATA_BYTES: usize = 16 * 1024;

/// Estimated bytes of a row in addition to its metadata: its columns, and its entries in the indexes.
const ROW_OVERHEAD_BYTES: i64 = 400;

/// A stored event. Serializes to the format of seed 003.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its place in the order in which the store got its events; 0 before that.
    pub position: i64,
    /// The time at which it was recorded.
    pub timestamp: Timestamp,
    /// The id of its request.
    pub trace_id: TraceId,
    /// One of [`kind`](super::kind).
    pub event_type: Cow<'static, str>,
    /// Its status.
    pub status: EventStatus,
    /// The gateway that has recorded it, where several can share the store.
    pub replica: Option<String>,
    /// Of a record that was read there are none.
    pub(super) columns: Columns,
    /// The hash of what equal denials of one minute have in common, which are one record.
    pub(super) denial: Option<Box<str>>,
    /// The number of events that it stands for. Of a record that was read the metadata has it, if there are several.
    pub(super) count: i64,
    /// Everything else, as the text of a JSON object.
    pub metadata: String,
}

/// The members of the metadata by which events are found, and the names of their columns. The principal is the first.
pub(super) const COLUMNS: [&str; 6] = ["principal", "view", "backend", "item", "outcome", "kind"];

/// The values of [`COLUMNS`].
pub(super) type Columns = [Option<Box<str>>; COLUMNS.len()];

/// Returns the columns of an event about facts.
fn columns_of_facts(facts: &Value) -> Columns {
    COLUMNS.map(|name| {
        let tool = facts["tool_name"].as_str().filter(|_| name == "item");
        column(tool.or(facts[name].as_str()))
    })
}

fn columns_of_request(request: &FinishedRequest) -> Columns {
    let columns = [
        request.principal.as_deref(),
        request.view.as_deref(),
        request.backend.as_deref(),
        Some(&*request.item),
        Some(request.outcome.name()),
        request.failure.as_ref().map(|failure| &*failure.kind),
    ];
    columns.map(column)
}

fn column(text: Option<&str>) -> Option<Box<str>> {
    text.map(|text| short(text).into())
}

impl Record {
    /// Its bytes in the store, estimated.
    pub(super) fn bytes(&self) -> i64 {
        ROW_OVERHEAD_BYTES + self.metadata.len() as i64
    }

    /// Leaves out the rules of the operator, and makes a request that a role denies look like one for an unknown item:
    /// the caller's own events must not tell it what is there.
    pub fn hide_denial(&mut self) {
        let metadata = serde_json::from_str::<Map<String, Value>>(&self.metadata);
        let Ok(mut metadata) = metadata else { return };
        // The order of the others stays: it would tell, too.
        let is_denied = metadata.shift_remove("denial").is_some();
        if is_denied {
            metadata.insert("outcome".to_owned(), json!(Outcome::Failed));
        }
        let kind = metadata.get("kind").and_then(Value::as_str);
        let is_missing = kind.is_some_and(|kind| kind.ends_with("_not_found"))
            && metadata.get("backend").is_none_or(Value::is_null);
        if is_missing {
            // It may name the nearest item.
            metadata.shift_remove("error");
        }
        if is_denied || is_missing {
            metadata.insert("arguments".to_owned(), Value::Null);
        }
        // `rule` and `decided_by` are of approvals.
        let hidden = ["allowed_by", "approved_by", "rule", "decided_by"];
        let hidden = hidden.map(|name| metadata.shift_remove(name).is_some());
        if hidden.contains(&true) || is_denied || is_missing {
            self.metadata = Value::Object(metadata).to_string();
        }
    }
}

impl From<Event> for Record {
    fn from(event: Event) -> Self {
        let (mut columns, mut metadata) = match &event.details {
            EventDetails::Request(request) => (columns_of_request(request), metadata(request)),
            EventDetails::Facts(facts) => (columns_of_facts(facts), facts.to_string()),
        };
        if metadata.len() > MAX_METADATA_BYTES {
            r#"{"cut":true}"#.clone_into(&mut metadata);
        }
        columns[0].get_or_insert_default();
        let denial = event.denial().map(|(principal, kind)| {
            let kind = format!("{} {principal:?} {kind}", minute_of(event.timestamp));
            hexadecimal(&Hash::hash(kind.as_bytes())[..16]).into()
        });
        Self {
            position: 0,
            timestamp: event.timestamp,
            trace_id: event.trace_id,
            event_type: event.event_type.into(),
            status: event.status,
            replica: None,
            columns,
            denial,
            count: event.count.try_into().unwrap_or(i64::MAX),
            metadata,
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
        event.serialize_field("source", SOURCE)?;
        match &self.replica {
            Some(replica) => event.serialize_field("replica", replica)?,
            None => event.skip_field("replica")?,
        }
        let metadata: Option<&RawValue> = serde_json::from_str(&self.metadata).ok();
        event.serialize_field("metadata", &metadata)?;
        event.end()
    }
}

/// The metadata of a request; of a tool call the first three members are those of seed 003.
#[skip_serializing_none]
#[derive(Serialize)]
struct RequestMetadata<'a> {
    tool_name: Option<&'a str>,
    method: Option<&'a str>,
    item: Option<&'a str>,
    #[serialize_always]
    backend: Option<&'a str>,
    duration_ms: f64,
    outcome: Outcome,
    denial: Option<&'a str>,
    allowed_by: Option<&'a str>,
    approved_by: Option<&'a str>,
    #[serialize_always]
    principal: Option<&'a str>,
    view: Option<&'a str>,
    client: Option<&'a str>,
    address: Option<IpAddr>,
    request_bytes: usize,
    response_bytes: usize,
    #[serialize_always]
    error_code: Option<i64>,
    kind: Option<&'a str>,
    error: Option<&'a str>,
    #[serialize_always]
    arguments: Option<&'a RawValue>,
}

fn metadata(request: &FinishedRequest) -> String {
    #[expect(clippy::cast_precision_loss, reason = "exact for a century")]
    let micros = request.duration.as_micros() as f64;
    let (method, item) = (request.method.as_deref(), short(&request.item));
    let failure = request.failure.as_ref();
    let error = failure.map(|failure| failure.text.as_str());
    let arguments = request.arguments.as_ref();
    let client = visible(request.client.as_str());
    let metadata = RequestMetadata {
        tool_name: method.is_none().then_some(item),
        method,
        item: method.is_some().then_some(item),
        backend: request.backend.as_deref().map(short),
        duration_ms: micros / 1e3,
        outcome: request.outcome,
        denial: request.denial.as_deref().map(short),
        allowed_by: request.permission.as_deref().map(short),
        approved_by: request.approved_by.as_deref().map(short),
        principal: request.principal.as_deref().map(short),
        view: request.view.as_deref(),
        client: Some(&*client).filter(|client| !client.is_empty()),
        address: request.address,
        request_bytes: request.request_bytes,
        response_bytes: request.response_bytes,
        error_code: request.error_code,
        kind: failure.map(|failure| &*failure.kind),
        error: error.filter(|text| !text.is_empty()),
        // They are JSON already.
        arguments: arguments.and_then(|types| serde_json::from_str(types.json()).ok()),
    };
    serde_json::to_string(&metadata).unwrap_or_default()
}
