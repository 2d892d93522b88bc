//! The event log and its stores.

mod contract;
mod faults;
mod files;
mod killed;
mod large;
#[cfg(feature = "postgres")]
mod shared;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::query::MAX_LIMIT;
use super::queue::Health;
use super::store::{OpenStore, Store};
use super::*;
use crate::shape::Shape;

impl Query {
    fn with_trace(mut self, trace_id: TraceId) -> Self {
        self.trace_id = Some(trace_id);
        self
    }

    fn with_type(mut self, event_type: &str) -> Self {
        self.event_type = Some(event_type.to_owned());
        self
    }

    fn with_status(mut self, status: Status) -> Self {
        self.status = Some(status);
        self
    }

    fn with_since(mut self, since: Timestamp) -> Self {
        self.since = Some(since);
        self
    }

    fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

/// A folder of its own for a test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "mcp-gateway-events-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("events.db")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const PLENTY: Retention = Retention {
    age: Duration::from_secs(86_400),
    rows: 1_000_000,
    bytes: 1 << 30,
};

fn facts(json: Value) -> Map<String, Value> {
    json.as_object().unwrap().clone()
}

/// An event that says which one it is.
fn event(number: usize) -> Event {
    let facts = facts(json!({"number": number}));
    Event::new(TraceId::random(), "test.happened", Status::Success, facts)
}

fn number(record: &Record) -> usize {
    let metadata: Value = serde_json::from_str(&record.metadata).unwrap();
    usize::try_from(metadata["number"].as_u64().unwrap()).unwrap()
}

/// Looks again and again until it is so; for what another thread or process does.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{what} does not happen"
        );
        std::thread::yield_now();
    }
}

#[test]
fn a_call_is_shown_in_the_format_of_seed_003() {
    let trace = TraceId::parse("550e8400-e29b-41d4-a716-446655440000").unwrap();
    let arguments = serde_json::from_str(r#"{"workflow":"s3cret"}"#).unwrap();
    let mut event = Event::call(
        trace,
        Call {
            outcome: Outcome::TimedOut,
            principal: Some("alice".into()),
            backend: Some("n8n".into()),
            tool: format!("n8n__run_workflow\0{}", "x".repeat(5_000)).into(),
            duration: Duration::from_micros(30_000_042),
            request_bytes: 21,
            response_bytes: 0,
            hides_something: false,
            arguments: Shape::of(arguments),
            error_code: Some(-32001),
        },
    );
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
                "error_code": -32001
            }
        })
    );
}

#[test]
fn an_event_is_small_whoever_made_it() {
    let huge = facts(json!({"text": "x".repeat(1 << 20)}));
    let event = Event::new(TraceId::random(), "x".repeat(1_000), Status::Pending, huge);
    let shown = serde_json::to_string(&Record::from(event)).unwrap();
    assert!(shown.len() < 1_000, "{shown}");
}
