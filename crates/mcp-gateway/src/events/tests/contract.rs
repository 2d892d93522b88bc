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
    event.timestamp = Timestamp(micros);
    event.into()
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
    let all = Query::default();
    let typed = Query {
        event_type: Some("gateway.tool_call".into()),
        ..all.clone()
    };
    let failed = Query {
        status: Some(Status::Failure),
        ..all.clone()
    };
    let since = |micros| Query {
        since: Some(Timestamp(micros)),
        ..all.clone()
    };
    let traced = Query {
        trace_id: Some(trace),
        ..all.clone()
    };
    for (query, expected) in [
        (all.clone(), &[0, 1, 2, 3, 4][..]),
        (
            Query {
                limit: 2,
                ..all.clone()
            },
            &[3, 4],
        ),
        (
            Query {
                limit: 0,
                ..all.clone()
            },
            &[],
        ),
        (typed.clone(), &[1, 2, 3]),
        (
            Query {
                limit: 2,
                ..typed.clone()
            },
            &[2, 3],
        ),
        (
            Query {
                status: Some(Status::Success),
                ..typed.clone()
            },
            &[1, 3],
        ),
        (
            Query {
                since: Some(Timestamp(2_001)),
                ..typed.clone()
            },
            &[3],
        ),
        (failed.clone(), &[2]),
        (
            Query {
                status: Some(Status::Pending),
                ..all.clone()
            },
            &[4],
        ),
        (since(2_000), &[1, 2, 3, 4]),
        (since(4_000), &[4]),
        (since(4_001), &[]),
        (traced.clone(), &[2]),
        (
            Query {
                status: Some(Status::Success),
                ..traced.clone()
            },
            &[],
        ),
        (
            Query {
                event_type: Some("gateway.tool_call".into()),
                ..traced
            },
            &[2],
        ),
        (
            Query {
                event_type: Some("gateway.TOOL_CALL".into()),
                ..all.clone()
            },
            &[],
        ),
        (
            Query {
                event_type: Some("' or 1=1 --".into()),
                ..all
            },
            &[],
        ),
    ] {
        assert_eq!(found(&mut *store, query.clone()), expected, "{query:?}");
    }
    let back = &store.find(&failed).unwrap()[0];
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
    let query = Query {
        limit: usize::MAX,
        ..Query::default()
    };
    let found = found(&mut *store, query);
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
    let since = |micros| Query {
        since: Some(Timestamp(micros)),
        ..Query::default()
    };
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
    let minutes = |count: u64| now.before(Duration::from_secs(60 * count)).0;
    let records: Vec<_> = (0..3_000)
        .map(|n| at(minutes(3_000 - n as u64), n, "x", Status::Success))
        .collect();
    store.append(&records).unwrap();
    let mut tidy = |retention: Retention| {
        while store.retain(&retention, now).unwrap() {}
        let query = Query {
            limit: 1_000,
            ..Query::default()
        };
        found(&mut *store, query)
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
    let query = Query {
        limit: 1_000,
        ..Query::default()
    };
    // Not all of the 10 MB are left, the newest.
    let left = found(&mut *store, query);
    assert_eq!(left, (7_000..8_000).collect::<Vec<_>>());
    let before = Query {
        limit: 1_000,
        ..Query::default()
    };
    assert_eq!(store.find(&before).unwrap().len(), 1_000);
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
