//! What every store does.

use super::*;

/// A store that is empty and used by nobody else.
type Open<'a> = &'a mut dyn FnMut() -> Box<dyn Store>;

fn at(micros: i64, number: usize, event_type: &'static str, status: Status) -> Record {
    let mut event = Event::new(
        TraceId::random(),
        event_type,
        status,
        facts(json!({"number": number})),
    );
    event.timestamp = time(micros);
    event.into()
}

fn time(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap()
}

fn found(store: &mut dyn Store, query: Query) -> Vec<usize> {
    let found = store.find(&query).unwrap();
    found.iter().map(number).collect()
}

fn finds_by_each_filter(open: Open<'_>) {
    let mut store = open();
    let records = [
        at(1_000, 0, "gateway.started", Status::Success),
        at(2_000, 1, "gateway.tool_call", Status::Success),
        at(2_000, 2, "gateway.tool_call", Status::Failure),
        at(3_000, 3, "gateway.tool_call", Status::Success),
        at(4_000, 4, "workflow.started", Status::Pending),
    ];
    let trace = records[2].trace_id;
    store.append(&records[..2]).unwrap();
    store.append(&records[2..]).unwrap();
    let all = Query::default;
    let typed = || all().with_type("gateway.tool_call");
    let since = |micros| all().with_since(time(micros));
    for (query, expected) in [
        (all(), &[0, 1, 2, 3, 4][..]),
        (all().with_limit(2), &[3, 4]),
        (all().with_limit(0), &[]),
        (typed(), &[1, 2, 3]),
        (typed().with_limit(2), &[2, 3]),
        (typed().with_status(Status::Success), &[1, 3]),
        (typed().with_since(time(2_001)), &[3]),
        (all().with_status(Status::Failure), &[2]),
        (all().with_status(Status::Pending), &[4]),
        (since(2_000), &[1, 2, 3, 4]),
        (since(4_000), &[4]),
        (since(4_001), &[]),
        (all().with_trace(trace), &[2]),
        (all().with_trace(trace).with_status(Status::Success), &[]),
        (typed().with_trace(trace), &[2]),
        (all().with_type("gateway.TOOL_CALL"), &[]),
        (all().with_type("' or 1=1 --"), &[]),
    ] {
        assert_eq!(found(&mut *store, query.clone()), expected, "{query:?}");
    }
    let back = &store.find(&all().with_status(Status::Failure)).unwrap()[0];
    let (back, sent) = (
        serde_json::to_value(back),
        serde_json::to_value(&records[2]),
    );
    assert_eq!(back.unwrap(), sent.unwrap());
}

fn returns_a_thousand_at_most(open: Open<'_>) {
    let mut store = open();
    let records: Vec<_> = (0..1_200)
        .map(|n| at(5_000, n, "x", Status::Success))
        .collect();
    store.append(&records).unwrap();
    let found = found(&mut *store, Query::default().with_limit(usize::MAX));
    assert_eq!(found, (200..1_200).collect::<Vec<_>>());
}

/// A clock that was put back hides nothing.
fn takes_any_time(open: Open<'_>) {
    let mut store = open();
    for (number, micros) in [(0, 9_000_000), (1, 3_000), (2, 4_000)] {
        store
            .append(&[at(micros, number, "x", Status::Success)])
            .unwrap();
    }
    let since = |micros| Query::default().with_since(time(micros));
    let sorted = |mut numbers: Vec<usize>| {
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(sorted(found(&mut *store, since(3_500))), [0, 2]);
    assert_eq!(sorted(found(&mut *store, since(1))), [0, 1, 2]);
}

fn keeps_the_newest(open: Open<'_>) {
    let mut store = open();
    let now = Timestamp::now();
    let minutes =
        |count: u64| upstream::time::before(now, Duration::from_secs(60 * count)).as_microsecond();
    let records: Vec<_> = (0..3_000)
        .map(|n| at(minutes(3_000 - n as u64), n, "x", Status::Success))
        .collect();
    store.append(&records).unwrap();
    let mut tidy = |retention: Retention| {
        while store.retain(&retention, now).unwrap() {}
        found(&mut *store, Query::default().with_limit(1_000))
    };
    let rows = |rows| Retention { rows, ..PLENTY };
    let all = tidy(Retention {
        age: Duration::from_secs(60 * 60 * 100),
        ..PLENTY
    });
    assert_eq!(all.len(), 1_000);
    assert_eq!(tidy(rows(500)), (2_500..3_000).collect::<Vec<_>>());
    let age = Duration::from_secs(60 * 100 + 30);
    let young = Retention { age, ..PLENTY };
    assert_eq!(tidy(young), (2_900..3_000).collect::<Vec<_>>());
    assert_eq!(tidy(rows(0)), [0; 0]);
}

fn keeps_within_its_bytes(open: Open<'_>) {
    let mut store = open();
    let text = "x".repeat(1_000);
    for part in 0..8 {
        let record = |n| {
            let facts = facts(json!({"number": part * 1_000 + n, "text": text}));
            Event::new(TraceId::random(), "x", Status::Success, facts).into()
        };
        let records: Vec<Record> = (0..1_000).map(record).collect();
        store.append(&records).unwrap();
    }
    let retention = Retention {
        bytes: 10 << 20,
        ..PLENTY
    };
    while store.retain(&retention, Timestamp::now()).unwrap() {}
    // Not all of the 10 MB are left, the newest.
    let left = found(&mut *store, Query::default().with_limit(1_000));
    assert_eq!(left, (7_000..8_000).collect::<Vec<_>>());
}

/// Every test of this file on one kind of store.
pub(super) fn hold(open: Open<'_>) {
    finds_by_each_filter(open);
    returns_a_thousand_at_most(open);
    takes_any_time(open);
    keeps_the_newest(open);
    keeps_within_its_bytes(open);
}

#[test]
fn in_memory() {
    hold(&mut || StoreLocation::Memory.open().unwrap());
}

#[test]
fn in_a_file() {
    let mut folders = Vec::new();
    hold(&mut || {
        let scratch = Scratch::new();
        let file = scratch.file();
        folders.push(scratch);
        StoreLocation::File(file).open().unwrap()
    });
    // The last one has been asked to keep 10 MB at most.
    let size = |suffix: &str| {
        let path = folders[4].0.join(format!("events.db{suffix}"));
        std::fs::metadata(path).map_or(0, |file| file.len())
    };
    assert!(size("") > 1 << 20, "{}", size(""));
    assert!(
        size("") + size("-wal") <= 10 << 20,
        "{} + {}",
        size(""),
        size("-wal")
    );
}
