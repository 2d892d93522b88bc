//! Queries events.

use rusqlite::{Connection, Row, params_from_iter, types::Value};

use super::trace_index;
use crate::events::store::ARGUMENTS;
use crate::events::{EventStatus, Query, Record, StoreError, kind};

// Each query names its index: without statistics SQLite may choose one that matches half of all
// events, or create a temporary one.
const ALL: &str = "
    select timestamp, trace_id, event_type, status, source, metadata
    from events where 1";

// The conditions of these two are those of their partial indexes.
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

/// Walks backwards along the most selective index, or along all events: events without an index entry
/// are the most frequent ones, so enough of them are found soon. A trace is searched only in the parts
/// that can contain it.
pub(super) fn find(connection: &Connection, query: &Query) -> Result<Vec<Record>, StoreError> {
    let event_type = query.event_type.as_deref();
    let mut sql = match (query.trace_id, query.status) {
        (Some(_), _) => BY_TRACE,
        _ if event_type.is_some_and(|event_type| event_type != kind::TOOL_CALL) => BY_TYPE,
        (None, Some(EventStatus::Failure | EventStatus::Pending)) => BY_STATUS,
        (None, Some(EventStatus::Success) | None) => ALL,
    }
    .to_owned();
    let mut values: Vec<Value> = Vec::new();
    if let Some(trace) = query.trace_id {
        values.push(trace_index::trace_suffix(trace).to_vec().into());
    }
    let mut add = |condition: &str, value: Value| {
        sql.push_str(" and ");
        sql.push_str(condition);
        values.push(value);
    };
    if let Some(trace) = query.trace_id {
        add("trace_id = ?", trace.to_bytes().to_vec().into());
    }
    if let Some(event_type) = &query.event_type {
        add("event_type = ?", event_type.clone().into());
    }
    if let Some(status) = query.status {
        add("status = ?", i64::from(status.number()).into());
    }
    for member in [query.principal_member(), query.view_member()]
        .into_iter()
        .flatten()
    {
        let before =
            format!("substr(metadata, 1, instr(metadata || '{ARGUMENTS}', '{ARGUMENTS}'))");
        add(&format!("instr({before}, ?) > 0"), member.into());
    }
    if let Some(since) = query.since {
        // No id is below its timestamp, so the condition on the id only ends the walk earlier.
        add("id >= ?", since.as_microsecond().into());
        add("timestamp >= ?", since.as_microsecond().into());
    }
    sql.push_str(" order by id desc limit ?");
    values.push(i64::try_from(query.limit()).unwrap_or(i64::MAX).into());
    let mut select = connection.prepare_cached(&sql)?;
    let rows = select.query_map(params_from_iter(values), record)?;
    let mut found = rows.collect::<Result<Vec<_>, _>>()?;
    found.reverse();
    Ok(found)
}

/// Walks forwards along all events.
pub(super) fn read(
    connection: &Connection,
    after: i64,
    since: i64,
    limit: usize,
) -> Result<Vec<(i64, Record)>, StoreError> {
    // No id is below its timestamp.
    let sql = "select timestamp, trace_id, event_type, status, source, metadata, id from events
        where id > ?1 and id >= ?2 and timestamp >= ?2 order by id limit ?3";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut select = connection.prepare_cached(sql)?;
    let rows = select.query_map([after, since, limit], |row| Ok((row.get(6)?, record(row)?)))?;
    Ok(rows.collect::<Result<Vec<_>, _>>()?)
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let (micros, trace_id, event_type) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let (status, source, metadata) = (row.get(3)?, row.get(4)?, row.get(5)?);
    Ok(Record::from_columns(
        micros, trace_id, event_type, status, source, metadata,
    ))
}
