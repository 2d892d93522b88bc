//! A query reads few events of a large log: it walks along one index, and does not sort.

use super::*;
use crate::database::Value;
use crate::events::table::newest;

#[test]
fn each_filter_walks_along_an_index() {
    let mut connection = StoreLocation::Memory.connect().unwrap();
    let query = |change: fn(&mut Query)| {
        let mut query = Query::default();
        change(&mut query);
        query
    };
    for (query, index) in [
        (Query::default(), "SCAN mcp_events"),
        (
            Query::default().with_since(Timestamp::now()),
            "INTEGER PRIMARY KEY",
        ),
        (
            Query::default()
                .with_trace(TraceId::new_v4())
                .with_type("x"),
            "by_trace",
        ),
        (Query::default().with_type("x"), "by_type"),
        (
            Query::default().with_status(EventStatus::Failure),
            "by_status",
        ),
        (
            query(|query| {
                query.item = Some("x".into());
                query.outcome = Some(Outcome::Ok);
            }),
            "by_item",
        ),
        (query(|query| query.kind = Some("x".into())), "by_kind"),
        (query(|query| query.view = Some("x".into())), "by_view"),
        (
            query(|query| query.backend = Some("x".into())),
            "by_backend",
        ),
        (
            query(|query| query.outcome = Some(Outcome::TimedOut)),
            "by_outcome",
        ),
        // Most events are such: the newest of all are looked at.
        (
            query(|query| query.outcome = Some(Outcome::Ok)),
            "SCAN mcp_events",
        ),
        (
            Query::default().with_type(kind::TOOL_CALL),
            "SCAN mcp_events",
        ),
        (
            Query::default().with_status(EventStatus::Success),
            "SCAN mcp_events",
        ),
        (
            query(|query| query.principal = Some("x".into())).with_since(Timestamp::now()),
            "by_principal",
        ),
    ] {
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
