//! Tests of a large log.

use rusqlite::Connection;

use super::*;

const ROWS: usize = 1_000_000;

/// R28, with limits for a debug build on a busy machine: 20,000 events a second and 20 ms, five times
/// slower.
#[test]
fn million_events_stay_fast() {
    let scratch = Scratch::new();
    let mut store = StoreLocation::File(scratch.file()).open().unwrap();
    let record = |number| Record::from(event(number));
    let batch: Vec<Record> = (0..256).map(record).collect();
    let started = Instant::now();
    for _ in 0..40 {
        store.append(&batch).unwrap();
    }
    let rate = 40.0 * 256.0 / started.elapsed().as_secs_f64();
    assert!(rate > 4_000.0, "{rate} events a second");

    // Among the oldest events, so that a walk from the newest one would be slow.
    let traced = record(0);
    let trace = traced.trace_id;
    store.append(&[traced]).unwrap();

    // SQL generates the other events, with different traces, types and times.
    let others = Connection::open(scratch.file()).unwrap();
    others
        .execute_batch(&format!(
            "insert into events (timestamp, trace_id, event_type, status, source, metadata)
             with recursive n (i) as (select 0 union all select i + 1 from n where i < {ROWS})
             select timestamp + i, randomblob(16), 'test.' || (i % 7), i % 997 = 0, source, metadata
             from n, (select * from events limit 1);
             insert into parts (id, traces)
             select id, randomblob(4000) from events where event_type <> 'test.happened' and id % 1000 = 0"
        ))
        .unwrap();
    let all = Query::default;
    let hour = Duration::from_secs(3_600);
    let queries = [
        all(),
        all().with_trace(trace),
        all().with_type("test.3"),
        all().with_status(EventStatus::Failure),
        all().with_since(upstream::time::before(Timestamp::now(), hour)),
    ];
    for query in queries {
        let mut times = Vec::new();
        for _ in 0..100 {
            let started = Instant::now();
            let found = store.find(&query).unwrap();
            times.push(started.elapsed());
            assert!(!found.is_empty(), "{query:?}");
        }
        times.sort_unstable();
        // The median: a query that reads all rows takes longer each time, a busy machine only sometimes.
        assert!(times[50] < Duration::from_millis(100), "{:?}", times[50]);
    }
}
