//! Asking for events.

use rusqlite::{Connection, Row, params_from_iter, types::Value};

use super::part;
use crate::events::{Failure, Query, Record, Status, kind};

// The indexes are named, because without statistics SQLite may choose one that matches half of all
// events, or make one for the occasion.
const ALL: &str = "
    select timestamp, trace_id, event_type, status, source, metadata
    from events where 1";

// What these two leave out is what their indexes leave out.
const BY_TYPE: &str = "
    select timestamp, trace_id, event_type, status, source, metadata
    from events indexed by events_by_type where event_type <> 'gateway.tool_call'";

const BY_STATUS: &str = "
    select timestamp, trace_id, event_type, status, source, metadata
    from events indexed by events_by_status where status <> 0";

const BY_TRACE: &str = "
    with places(first, next) as (
        select id, (select min(id) from parts as later where later.id > parts.id)
        from parts where instr(traces, ?)
    )
    select timestamp, trace_id, event_type, status, source, metadata
    from places cross join events not indexed on id >= first and id < coalesce(next, 9223372036854775807)
    where 1";

/// One walk backwards along the index that leaves out most, or along all events: those that no index
/// has are what most events are, so that enough of them are soon found. A trace is looked for where
/// it may be.
pub(super) fn find(connection: &Connection, query: &Query) -> Result<Vec<Record>, Failure> {
    let wanted = query.event_type.as_deref();
    let mut sql = match (query.trace_id, query.status) {
        (Some(_), _) => BY_TRACE,
        _ if wanted.is_some_and(|wanted| wanted != kind::TOOL_CALL) => BY_TYPE,
        (None, Some(Status::Failure | Status::Pending)) => BY_STATUS,
        (None, Some(Status::Success) | None) => ALL,
    }
    .to_owned();
    let mut values: Vec<Value> = Vec::new();
    if let Some(trace) = query.trace_id {
        values.push(part::mark(trace).to_vec().into());
    }
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
    if let Some(status) = query.status {
        only("status = ?", i64::from(status.number()).into());
    }
    if let Some(since) = query.since {
        // No id is below its timestamp, so the first condition loses nothing and ends the walk.
        only("id >= ?", since.as_microsecond().into());
        only("timestamp >= ?", since.as_microsecond().into());
    }
    sql.push_str(" order by id desc limit ?");
    values.push(i64::try_from(query.limit()).unwrap_or(i64::MAX).into());
    let mut select = connection.prepare_cached(&sql)?;
    let rows = select.query_map(params_from_iter(values), record)?;
    let mut found = rows.collect::<Result<Vec<_>, _>>()?;
    found.reverse();
    Ok(found)
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let (micros, trace_id, event_type) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let (status, source, metadata) = (row.get(3)?, row.get(4)?, row.get(5)?);
    Ok(Record::from_columns(
        micros, trace_id, event_type, status, source, metadata,
    ))
}
