//! Tests of the event log and its stores.

mod failures;
mod files;
mod kill;
mod plans;
mod postgres;
mod store;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use upstream::time::Timestamp;

use super::table::{MAX_QUERY_LIMIT, find};
use super::*;
use crate::Database;
use crate::database::Connection;

impl Query {
    fn with_trace(mut self, trace_id: TraceId) -> Self {
        self.trace_id = Some(trace_id);
        self
    }

    fn with_type(mut self, event_type: &str) -> Self {
        self.event_type = Some(event_type.to_owned());
        self
    }

    fn with_status(mut self, status: EventStatus) -> Self {
        self.status = Some(status);
        self
    }

    fn with_since(mut self, since: Timestamp) -> Self {
        self.since = Some(since);
        self
    }

    fn with_limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }
}

/// A temporary folder of a test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, n) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("mcp-gateway-events-{process}-{n}"));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("events.db")
    }

    /// Removes the folder at once: a log may be created again while its files are removed one by one.
    pub(crate) fn remove(&self) {
        let aside = self.0.with_extension("removed");
        std::fs::rename(&self.0, &aside).unwrap();
        std::fs::remove_dir_all(aside).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(scratch: &Scratch) -> Database {
    Database::start(
        StoreLocation::File(scratch.file()),
        Retention::default(),
        None,
    )
    .unwrap()
}

/// An event with its number in the metadata.
fn event(number: usize) -> Event {
    let facts = json!({"number": number});
    Event::new("test.happened", EventStatus::Success, facts)
}

/// A denied call in this minute, of whose arguments `name` is recorded.
pub(crate) fn denied(principal: &str, item: &str, arguments: &Value, minute: i64) -> Event {
    let known = KnownArguments::new(&json!({"properties": {"name": {}, "other": {}}}));
    let arguments = to_raw_value(arguments).unwrap();
    let request = FinishedRequest {
        item: item.into(),
        arguments: Some(ArgumentTypes::new(&arguments, &known, |name| {
            name == "name"
        })),
        outcome: Outcome::Denied,
        principal: Some(principal.into()),
        ..FinishedRequest::default()
    };
    let mut event = Event::finished(TraceId::new_v4(), request);
    event.timestamp = Timestamp::from_second(60 * minute).unwrap();
    event
}

/// The number of equal denials that a record stands for, if it is not one.
fn count(record: &Record) -> Value {
    let mut metadata: Value = serde_json::from_str(&record.metadata).unwrap();
    metadata["count"].take()
}

fn number(record: &Record) -> usize {
    let metadata: Value = serde_json::from_str(&record.metadata).unwrap();
    usize::try_from(metadata["number"].as_u64().unwrap()).unwrap()
}

/// Waits for a condition that another thread or process makes true.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        let is_in_time = start.elapsed() < Duration::from_secs(120);
        assert!(is_in_time, "timeout: {what}");
        std::thread::yield_now();
    }
}

/// Records an event and waits until `count` events are written.
fn write(database: &Database, number: usize, count: u64) {
    database.log.record(event(number));
    until("written", || database.log.health().written == count);
}

/// Waits until the log is degraded, and returns the reason.
fn degraded(database: &Database) -> String {
    until("degraded", || database.log.health().degraded.is_some());
    database.log.health().degraded.unwrap_or_default()
}

/// The numbers of the events that a query finds.
fn found(connection: &mut Connection, query: &Query) -> Vec<usize> {
    let found = find(connection, query).unwrap();
    found.iter().map(number).collect()
}

#[test]
fn call_has_the_format_of_seed_003() {
    let trace = parse_trace("550e8400-e29b-41d4-a716-446655440000").unwrap();
    let arguments = serde_json::from_str(r#"{"workflow":"s3cret"}"#).unwrap();
    let known = KnownArguments::new(&json!({"properties": {"workflow": {}}}));
    let mut request = FinishedRequest {
        outcome: Outcome::TimedOut,
        principal: Some("alice".into()),
        backend: Some("n8n".into()),
        item: format!("n8n__run_workflow\0{}", "x".repeat(5_000)).into(),
        duration: Duration::from_micros(30_000_042),
        request_bytes: 21,
        response_bytes: 0,
        arguments: Some(ArgumentTypes::new(arguments, &known, |_| false)),
        error_code: Some(-32001),
        ..FinishedRequest::default()
    };
    let text = format!("no answer, password=hunter2 {}", "x".repeat(5_000));
    request.fail("timeout", &text, &OwnTexts::default());
    let mut event = Event::finished(trace, request);
    event.timestamp = Timestamp::from_microsecond(1_761_057_130_123_456).unwrap();
    let shown = serde_json::to_value(Record::from(event)).unwrap();
    assert_eq!(
        shown,
        json!({
            "timestamp": "2025-10-21T14:32:10.123456+00:00",
            "trace_id": "550e8400-e29b-41d4-a716-446655440000",
            "status": "failure",
            "schema_version": "1.0",
            "event_type": "gateway.tool_call",
            "source": "mcp-gateway",
            "metadata": {
                "tool_name": "n8n__run_workflow",
                "backend": "n8n",
                "duration_ms": 30000.042,
                "outcome": "timed_out",
                "principal": "alice",
                "request_bytes": 21,
                "response_bytes": 0,
                "arguments": {"workflow": "string(6)"},
                "error_code": -32001,
                "kind": "timeout",
                "error": format!("no answer, password=*** {}…", "x".repeat(176))
            }
        })
    );
}

#[test]
fn event_is_small_for_any_input() {
    let huge = json!({"text": "x".repeat(1 << 20)});
    let event = Event::new("x", EventStatus::Pending, huge);
    let shown = serde_json::to_string(&Record::from(event)).unwrap();
    assert!(shown.len() < 1_000, "{shown}");
}
