//! How fast the event log is: `cargo run --release -p mcp-gateway --example events`.
//!
//! Fills a log with a million calls and asks for each filter.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_gateway::events::{
    Call, Event, Log, Outcome, Query, Retention, Status, StoreLocation, Timestamp, TraceId, kind,
};
use mcp_gateway::shape::Shape;

const EVENTS: usize = 1_000_000;
const QUERIES: usize = 500;

fn main() -> std::io::Result<()> {
    let folder = std::env::temp_dir().join(format!("mcp-gateway-events-{}", std::process::id()));
    let measured = measure(&folder);
    std::fs::remove_dir_all(&folder)?;
    measured
}

fn measure(folder: &std::path::Path) -> std::io::Result<()> {
    let retention = Retention {
        age: Duration::from_secs(86_400),
        rows: 2 * EVENTS as u64,
        bytes: 4 << 30,
    };
    let log = Log::start(StoreLocation::File(folder.join("events.db")), retention)?;
    let mut out = std::io::stdout().lock();
    let mut traces = Vec::new();
    let (start, mut slowest, mut recording) = (Instant::now(), Duration::ZERO, Duration::ZERO);
    for number in 0..EVENTS {
        let trace = TraceId::random();
        if number % (EVENTS / QUERIES) == 0 {
            traces.push(trace);
        }
        let event = call(trace, number);
        while log.health().waiting > 9_000 {
            std::thread::yield_now();
        }
        let before = Instant::now();
        log.record(event);
        let took = before.elapsed();
        recording += took;
        slowest = slowest.max(took);
    }
    while log.health().waiting > 0 {
        std::thread::yield_now();
    }
    let rate = EVENTS as f64 / start.elapsed().as_secs_f64();
    let each = recording / EVENTS as u32;
    writeln!(
        out,
        "{rate:.0} events/s; record: mean {each:?}, slowest {slowest:?}; {:?}",
        log.health()
    )?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let all = Query::default;
    let calls = || all().with_type(kind::TOOL_CALL);
    for (name, query) in [
        ("nothing", all()),
        ("nothing, 1000", all().with_limit(1_000)),
        ("type", calls()),
        ("rare type", all().with_type(kind::STARTED)),
        ("type, 1000", calls().with_limit(1_000)),
        ("success", all().with_status(Status::Success)),
        ("failure", all().with_status(Status::Failure)),
        ("since", all().with_since(Timestamp::now())),
        ("type and failure", calls().with_status(Status::Failure)),
        ("trace", all()),
    ] {
        let mut times = Vec::new();
        for &trace in &traces {
            let query = match name {
                "trace" => all().with_trace(trace),
                _ => query.clone(),
            };
            let before = Instant::now();
            let found = runtime.block_on(log.find(query));
            times.push(before.elapsed());
            assert!(found.is_ok());
        }
        times.sort_unstable();
        let at = |percent: usize| times[times.len() * percent / 100];
        writeln!(out, "{name:>16}: p50 {:?}, p99 {:?}", at(50), at(99))?;
    }
    log.close();
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        writeln!(
            out,
            "{:?}: {} MB",
            file.file_name(),
            file.metadata()?.len() >> 20
        )?;
    }
    Ok(())
}

fn call(trace: TraceId, number: usize) -> Event {
    let backend = ["docker", "n8n", "openhands"][number % 3];
    let failed = number.is_multiple_of(1_000);
    let arguments = serde_json::from_str(r#"{"workflow":"Hello","inputs":{"a":1},"wait":true}"#);
    let call = Call {
        outcome: if failed { Outcome::Failed } else { Outcome::Ok },
        principal: Some(Arc::from("alice")),
        backend: Some(backend.into()),
        tool: format!("{backend}__list_containers").into(),
        duration: Duration::from_micros(1_234),
        request_bytes: 49,
        response_bytes: 2_048,
        hides_something: false,
        arguments: arguments.map_or_else(|_| Shape::none(), Shape::of),
        error_code: failed.then_some(-32603),
    };
    Event::call(trace, call)
}
