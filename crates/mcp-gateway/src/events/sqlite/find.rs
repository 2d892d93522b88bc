//! Asking for events.

use rusqlite::{Connection, Row, params_from_iter, types::Value};
use serde_json::value::RawValue;

use crate::events::{Failure, Query, Record, Status, Timestamp, TraceId};

// The indexes are named, because without statistics SQLite may choose one that matches half of all
// events.
const ALL: &str = "
    select id, timestamp, trace_id, event_type, status, source, metadata
    from events where 1";

const BY_TYPE: &str = "
    select id, timestamp, trace_id, event_type, status, source, metadata
    from events indexed by events_by_type where 1";

const BY_STATUS: &str = "
    select id, timestamp, trace_id, event_type, status, source, metadata
    from events indexed by events_by_status where 1";

const BY_TRACE: &str = "
    with recursive
        ends(first, last) as (select (select min(part) from events), (select max(part) from events)),
        parts(number) as (
            select last from ends union all
            select number - 1 from parts where number > (select first from ends)
        )
    select id, timestamp, trace_id, event_type, status, source, metadata
    from parts cross join events indexed by events_by_trace on part = number where 1";

/// One walk backwards along an index, or one for each status where only the type is given: the index
/// of types is ordered by status first.
pub(super) fn find(connection: &Connection, query: &Query) -> Result<Vec<Record>, Failure> {
    let mut found = Vec::new();
    if query.trace_id.is_none() && query.event_type.is_some() && query.status.is_none() {
        for status in Status::ALL {
            found.extend(walk(connection, query, Some(status))?);
        }
        found.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
        found.truncate(query.limit());
    } else {
        found = walk(connection, query, query.status)?;
    }
    Ok(found.into_iter().rev().map(|(_, record)| record).collect())
}

/// Newest first.
fn walk(
    connection: &Connection,
    query: &Query,
    status: Option<Status>,
) -> Result<Vec<(i64, Record)>, Failure> {
    let mut sql = match (&query.trace_id, &query.event_type, status) {
        (Some(_), _, _) => BY_TRACE,
        (None, Some(_), _) => BY_TYPE,
        (None, None, Some(_)) => BY_STATUS,
        (None, None, None) => ALL,
    }
    .to_owned();
    let mut values = Vec::new();
    let mut only = |condition: &str, value: Value| {
        sql.push_str(" and ");
        sql.push_str(condition);
        values.push(value);
    };
    if let Some(trace) = query.trace_id {
        only("trace_id = ?", trace.to_bytes().to_vec().into());
    }
    if let Some(event_type) = &query.event_type {
        only("event_type = ?", event_type.clone().into());
    }
    if let Some(status) = status {
        only("status = ?", i64::from(status.number()).into());
    }
    if let Some(since) = query.since {
        // No id is below its timestamp, so the first condition loses nothing and ends the walk.
        only("id >= ?", since.0.into());
        only("timestamp >= ?", since.0.into());
    }
    sql.push_str(" order by id desc limit ?");
    values.push(i64::try_from(query.limit()).unwrap_or(i64::MAX).into());
    let mut select = connection.prepare_cached(&sql)?;
    let rows = select.query_map(params_from_iter(values), record)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn record(row: &Row<'_>) -> rusqlite::Result<(i64, Record)> {
    let metadata = RawValue::from_string(row.get(6)?);
    let record = Record {
        timestamp: Timestamp(row.get(1)?),
        trace_id: TraceId::from_bytes(row.get(2)?),
        event_type: row.get(3)?,
        status: Status::from_number(row.get(4)?),
        source: row.get(5)?,
        metadata: metadata.unwrap_or_else(|_| RawValue::NULL.to_owned()),
    };
    Ok((row.get(0)?, record))
}
