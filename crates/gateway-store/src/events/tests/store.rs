//! Tests that every store has to pass.

use super::*;

/// Opens an empty store.
type Open<'a> = &'a mut dyn FnMut() -> Connection;

fn at(micros: i64, number: usize, event_type: &'static str, status: EventStatus) -> Record {
    let mut event = Event::new(event_type, status, json!({"number": number}));
    event.timestamp = time(micros);
    event.into()
}

fn time(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap()
}

fn finds_by_each_filter(open: Open<'_>) {
    let mut store = open();
    let records = [
        at(1_000, 0, "gateway.started", EventStatus::Success),
        at(2_000, 1, "gateway.tool_call", EventStatus::Success),
        at(2_000, 2, "gateway.tool_call", EventStatus::Failure),
        at(3_000, 3, "gateway.tool_call", EventStatus::Success),
        at(4_000, 4, "workflow.started", EventStatus::Pending),
    ];
    let trace = records[2].trace_id;
    append(&mut store, &records[..2]).unwrap();
    append(&mut store, &records[2..]).unwrap();
    let all = Query::default;
    let typed = || all().with_type("gateway.tool_call");
    let since = |micros| all().with_since(time(micros));
    for (query, expected) in [
        (all(), &[0, 1, 2, 3, 4][..]),
        (all().with_limit(2), &[3, 4]),
        (all().with_limit(0), &[]),
        (typed(), &[1, 2, 3]),
        (typed().with_limit(2), &[2, 3]),
        (typed().with_status(EventStatus::Success), &[1, 3]),
        (typed().with_since(time(2_001)), &[3]),
        (all().with_status(EventStatus::Failure), &[2]),
        (all().with_status(EventStatus::Pending), &[4]),
        (since(2_000), &[1, 2, 3, 4]),
        (since(4_000), &[4]),
        (since(4_001), &[]),
        (all().with_trace(trace), &[2]),
        (
            all().with_trace(trace).with_status(EventStatus::Success),
            &[],
        ),
        (typed().with_trace(trace), &[2]),
        (all().with_type("gateway.TOOL_CALL"), &[]),
        (all().with_type("' or 1=1 --"), &[]),
    ] {
        assert_eq!(found(&mut store, &query), expected, "{query:?}");
    }
    let failed = all().with_status(EventStatus::Failure);
    let back = &find(&mut store, &failed).unwrap()[0];
    // A store that gateways share names the one that has written it.
    let json = |record: &Record| {
        let mut json = serde_json::to_value(record).unwrap();
        json.as_object_mut().unwrap().remove("replica");
        json
    };
    assert_eq!(json(back), json(&records[2]));
    // The types of arguments, which may be called anything, are not about the caller.
    let facts = [
        json!({"number": 5, "principal": "string", "view": "boolean"}),
        json!({"arguments": {"principal": "string", "view": "boolean"}, "number": 6}),
    ];
    let events = facts.map(|facts| Event::new("called", EventStatus::Success, facts).into());
    append(&mut store, &events).unwrap();
    let name = |name: &str| Some(name.into());
    for (principal, view) in [(None, name("boolean")), (name("string"), None)] {
        let query = Query {
            principal,
            view,
            ..all()
        };
        assert_eq!(found(&mut store, &query), [5], "{query:?}");
    }
}

/// A store with four requests, and a function that returns the places of those that a query finds.
fn with_requests(open: Open<'_>) -> impl FnMut(&Query) -> Vec<usize> {
    let mut store = open();
    let request = |item: &str, outcome, is_late: bool, principal: &str| {
        let arguments = serde_json::from_str(r#"{"name":"web-\"7"}"#).unwrap();
        let known = KnownArguments::new(&json!({"properties": {"name": {}}}));
        let arguments = ArgumentTypes::new(arguments, &known, |_| item == "b__prune");
        let mut request = FinishedRequest {
            item: item.into(),
            outcome,
            principal: Some(principal.into()),
            backend: Some("b".into()),
            arguments: Some(arguments),
            ..FinishedRequest::default()
        };
        if is_late {
            request.fail("timeout", "no answer", &OwnTexts::default());
        }
        Record::from(Event::finished(TraceId::new_v4(), request))
    };
    let records = [
        request("b__list", Outcome::Ok, false, "ada"),
        request("b__prune", Outcome::Denied, true, "ada"),
        request("b__prune", Outcome::TimedOut, true, "bob"),
        request("b__list", Outcome::Failed, false, "bob"),
    ];
    append(&mut store, &records).unwrap();
    let traces = records.map(|record| record.trace_id);
    move |query| {
        let found = find(&mut store, query).unwrap();
        let place = |record: &Record| traces.iter().position(|trace| *trace == record.trace_id);
        found.iter().filter_map(place).collect()
    }
}

/// Equal denials of one minute are one event with their number, whoever writes them and however often.
fn counts_equal_denials(open: Open<'_>) {
    let mut store = open();
    let denied = |item: &str, minute: i64, count| {
        let mut event = denied("mallory", item, &json!({}), minute);
        event.count = count;
        Record::from(event)
    };
    let first = denied("b__x", 1, 1);
    append(&mut store, std::slice::from_ref(&first)).unwrap();
    let of = |store: &mut Connection| {
        let found = find(store, &Query::default()).unwrap();
        assert_eq!(found[0].trace_id, first.trace_id);
        found.iter().map(count).collect::<Vec<_>>()
    };
    assert_eq!(of(&mut store), [Value::Null]);
    let (again, other) = (denied("b__x", 1, 40), denied("b__y", 1, 1));
    append(&mut store, &[again.clone(), other, again]).unwrap();
    assert_eq!(of(&mut store), [json!(81), Value::Null]);
    append(&mut store, &[denied("b__x", 2, 2)]).unwrap();
    assert_eq!(of(&mut store), [json!(81), Value::Null, json!(2)]);
    let events = "select events from mcp_usage where principal = $1";
    let events = store.query(events, &["mallory".into()]).unwrap();
    assert_eq!(events[0].integer(0), 3);
}

/// A text is found where it stands as a whole name, and its characters mean themselves.
fn finds_what_names_a_text(open: Open<'_>) {
    let mut found = with_requests(open);
    for (about, expected) in [
        ("web-\"7", &[1, 2][..]),
        ("web-", &[1, 2]),
        ("7", &[1, 2]),
        ("web", &[]),
        ("eb-", &[]),
        ("web-%", &[]),
        ("web-*", &[]),
        ("web-.", &[]),
        ("[w]eb-", &[]),
    ] {
        let query = Query {
            about: Some(about.to_owned()),
            ..Query::default()
        };
        assert_eq!(found(&query), expected, "{about}");
    }
}

/// Sets a filter.
type Change = fn(&mut Query);

/// Requests are found by who, what and how they ended. Those who do not see rules do not see denials, either.
fn finds_requests_by_their_columns(open: Open<'_>) {
    let mut found = with_requests(open);
    let rows: [(Change, &[usize]); 9] = [
        (|query| query.item = Some("b__prune".into()), &[1, 2]),
        (|query| query.backend = Some("b".into()), &[0, 1, 2, 3]),
        (|query| query.backend = Some("c".into()), &[]),
        (|query| query.kind = Some("timeout".into()), &[1, 2]),
        (|query| query.outcome = Some(Outcome::Denied), &[1]),
        (
            |query| {
                query.principal = Some("ada".into());
                query.item = Some("b__list".into());
            },
            &[0],
        ),
        (
            |query| {
                query.outcome = Some(Outcome::Denied);
                query.hides_denials = true;
            },
            &[],
        ),
        (
            |query| {
                query.outcome = Some(Outcome::Failed);
                query.hides_denials = true;
            },
            &[1, 3],
        ),
        (
            |query| {
                query.kind = Some("timeout".into());
                query.hides_denials = true;
            },
            &[1, 2],
        ),
    ];
    for (change, expected) in rows {
        let mut query = Query::default();
        change(&mut query);
        assert_eq!(found(&query), expected, "{query:?}");
    }
}

fn returns_a_bounded_number(open: Open<'_>) {
    let mut store = open();
    let count = MAX_QUERY_LIMIT + 200;
    let records: Vec<_> = (0..count)
        .map(|n| at(5_000, n, "x", EventStatus::Success))
        .collect();
    // A database on a busy machine stores them all only in more than its time for one operation.
    for records in records.chunks(200) {
        append(&mut store, records).unwrap();
    }
    let found = found(&mut store, &Query::default().with_limit(usize::MAX));
    assert_eq!(found, (200..count).collect::<Vec<_>>());
}

/// Events are found also after the clock was set back.
fn accepts_any_time(open: Open<'_>) {
    let mut store = open();
    for (number, micros) in [(0, 9_000_000), (1, 3_000), (2, 4_000)] {
        append(&mut store, &[at(micros, number, "x", EventStatus::Success)]).unwrap();
    }
    let since = |micros| Query::default().with_since(time(micros));
    let sorted = |mut numbers: Vec<usize>| {
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(sorted(found(&mut store, &since(3_500))), [0, 2]);
    assert_eq!(sorted(found(&mut store, &since(1))), [0, 1, 2]);
}

fn keeps_the_newest(open: Open<'_>) {
    let mut store = open();
    let now = Timestamp::now();
    let minutes =
        |count: u64| upstream::time::before(now, Duration::from_secs(60 * count)).as_microsecond();
    let records: Vec<_> = (0..3_000)
        .map(|n| at(minutes(3_000 - n as u64), n, "x", EventStatus::Success))
        .collect();
    append(&mut store, &records).unwrap();
    let mut left = |retention: Retention| {
        while retain(&mut store, &retention, now).unwrap() {}
        found(&mut store, &Query::default().with_limit(1_000))
    };
    let rows = |rows| Retention {
        rows,
        ..Retention::default()
    };
    let all = left(Retention {
        age: Duration::from_secs(60 * 60 * 100),
        ..Retention::default()
    });
    assert_eq!(all.len(), 1_000);
    assert_eq!(left(rows(500)), (2_500..3_000).collect::<Vec<_>>());
    let age = Duration::from_secs(60 * 100 + 30);
    let young = Retention {
        age,
        ..Retention::default()
    };
    assert_eq!(left(young), (2_900..3_000).collect::<Vec<_>>());
    assert_eq!(left(rows(0)), [0; 0]);
}

/// Neither denied nor allowed requests of one principal push out what another one has done.
fn keeps_the_events_of_others(open: Open<'_>) {
    let mut store = open();
    let event = |principal: &str, number: usize| -> Record {
        let facts = json!({"principal": principal, "number": number});
        Event::new("x", EventStatus::Success, facts).into()
    };
    let others: Vec<Record> = (0..20).map(|n| event(["alice", "bob"][n % 2], n)).collect();
    append(&mut store, &others).unwrap();
    let retention = Retention {
        rows: 100,
        ..Retention::default()
    };
    for round in 0..4 {
        let flood: Vec<Record> = (0..500)
            .map(|n| event("mallory", 1_000 + 500 * round + n))
            .collect();
        append(&mut store, &flood).unwrap();
        while retain(&mut store, &retention, Timestamp::now()).unwrap() {}
    }
    let left = found(&mut store, &Query::default().with_limit(1_000));
    assert_eq!(left, (0..20).chain(2_920..3_000).collect::<Vec<_>>());
    // A trace is found although most events before and after it are gone.
    let query = Query {
        trace_id: Some(others[7].trace_id),
        ..Query::default()
    };
    assert_eq!(found(&mut store, &query), [7]);
}

fn keeps_the_limit_of_bytes(open: Open<'_>) {
    let mut store = open();
    let text = "x".repeat(1_000);
    for part in 0..8 {
        let record = |n| {
            let facts = json!({"number": part * 1_000 + n, "text": text});
            Event::new("x", EventStatus::Success, facts).into()
        };
        let records: Vec<Record> = (0..1_000).map(record).collect();
        append(&mut store, &records).unwrap();
    }
    let retention = Retention {
        bytes: 10 << 20,
        ..Retention::default()
    };
    while retain(&mut store, &retention, Timestamp::now()).unwrap() {}
    // The newest ones are left.
    let left = found(&mut store, &Query::default().with_limit(1_000));
    assert_eq!(left, (7_000..8_000).collect::<Vec<_>>());
}

/// Runs all tests on one kind of store.
pub(super) fn check(open: Open<'_>) {
    finds_by_each_filter(open);
    finds_requests_by_their_columns(open);
    finds_what_names_a_text(open);
    counts_equal_denials(open);
    returns_a_bounded_number(open);
    accepts_any_time(open);
    keeps_the_newest(open);
    keeps_the_events_of_others(open);
    keeps_the_limit_of_bytes(open);
}

#[test]
fn memory_passes() {
    check(&mut || StoreLocation::Memory.connect().unwrap());
}

#[test]
fn file_passes() {
    let mut folders = Vec::new();
    check(&mut || {
        let scratch = Scratch::new();
        let file = scratch.file();
        folders.push(scratch);
        StoreLocation::File(file).connect().unwrap()
    });
    // The limit of the last one is 10 MiB.
    let size = |suffix: &str| {
        let path = folders.last().unwrap().0.join(format!("events.db{suffix}"));
        std::fs::metadata(path).map_or(0, |file| file.len())
    };
    assert!(size("") > 1 << 20, "{}", size(""));
    let (file, wal) = (size(""), size("-wal"));
    assert!(file + wal <= 10 << 20, "{file} + {wal}");
}
