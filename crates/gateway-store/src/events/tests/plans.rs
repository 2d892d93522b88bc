//! A query reads few events of a large log: it walks along one index, and does not sort.

use super::*;
use crate::database::Value;
use crate::events::table::newest;

/// Sets a filter.
type Change = fn(&mut Query);

/// Filters, each with its index.
const FILTERS: [(Change, &str); 14] = [
    (|_| {}, "SCAN mcp_events"),
    (
        |query| query.since = Some(Timestamp::now()),
        "INTEGER PRIMARY KEY",
    ),
    (|query| query.trace_id = Some(TraceId::new_v4()), "by_trace"),
    (|query| query.event_type = Some("x".into()), "by_type"),
    (
        |query| query.status = Some(EventStatus::Failure),
        "by_status",
    ),
    (|query| query.item = Some("x".into()), "by_item"),
    (|query| query.kind = Some("x".into()), "by_kind"),
    (|query| query.view = Some("x".into()), "by_view"),
    (|query| query.backend = Some("x".into()), "by_backend"),
    (
        |query| query.outcome = Some(Outcome::TimedOut),
        "by_outcome",
    ),
    (|query| query.principal = Some("x".into()), "by_principal"),
    // Most events are such: the newest of all are looked at.
    (|query| query.outcome = Some(Outcome::Ok), "SCAN mcp_events"),
    (
        |query| query.event_type = Some(kind::TOOL_CALL.into()),
        "SCAN mcp_events",
    ),
    (
        |query| query.status = Some(EventStatus::Success),
        "SCAN mcp_events",
    ),
];

/// Of several filters the one that finds less has the index.
const SEVERAL: [(usize, usize); 3] = [(2, 3), (5, 9), (10, 1)];

#[test]
fn each_filter_walks_along_an_index() {
    let mut connection = StoreLocation::Memory.connect().unwrap();
    let alone = FILTERS.map(|(change, index)| (change, FILTERS[0].0, index));
    let several = SEVERAL.map(|(one, other)| (FILTERS[one].0, FILTERS[other].0, FILTERS[one].1));
    for (change, change_too, index) in alone.into_iter().chain(several) {
        let mut query = Query::default();
        change(&mut query);
        change_too(&mut query);
        let (sql, values) = newest(&connection, &query);
        let plan = connection.query(&format!("explain query plan {sql}"), &values);
        let steps = plan.unwrap();
        let steps: Vec<&str> = steps.iter().filter_map(|row| row.text(3)).collect();
        assert!(
            steps.len() == 1 && steps[0].contains(index),
            "{query:?}: {steps:?}"
        );
    }
    // Old events are found for their removal in the same way.
    for (condition, index) in [
        ("id < $1", "INTEGER PRIMARY KEY"),
        ("principal = $1", "by_principal"),
    ] {
        let oldest = format!(
            "explain query plan select id from mcp_events where {condition} order by id limit 1"
        );
        let plan = connection.query(&oldest, &[Value::Integer(1)]).unwrap();
        let steps: Vec<&str> = plan.iter().filter_map(|row| row.text(3)).collect();
        assert!(steps.len() == 1 && steps[0].contains(index), "{steps:?}");
    }
}
