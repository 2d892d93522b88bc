//! Queries events.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::events::store::ARGUMENTS;
use crate::events::{EventStatus, Query, Record, StoreError};

const COLUMNS: &str = "id, timestamp, trace_id, event_type, status, source, metadata, replica";

/// Walks one index backwards. A query with only a type walks once for each status, since the index of
/// types has the status as its next column.
pub(super) async fn find(client: &Client, query: &Query) -> Result<Vec<Record>, StoreError> {
    let mut conditions = vec!["true".to_owned()];
    let mut values: Vec<(&(dyn ToSql + Sync), Type)> = Vec::new();
    let trace = query.trace_id.map(|id| id.to_bytes().to_vec());
    let status = query.status.map(EventStatus::number);
    let since = query.since.map(|since| since.as_microsecond());
    if let Some(trace) = &trace {
        values.push((trace, Type::BYTEA));
        conditions.push(format!("trace_id = ${}", values.len()));
    }
    if let Some(event_type) = &query.event_type {
        values.push((event_type, Type::TEXT));
        conditions.push(format!("event_type = ${}", values.len()));
    }
    if let Some(status) = &status {
        values.push((status, Type::INT2));
        conditions.push(format!("status = ${}", values.len()));
    }
    if let Some(since) = &since {
        values.push((since, Type::INT8));
        conditions.push(format!("timestamp >= ${}", values.len()));
    }
    if let Some(replica) = &query.replica {
        values.push((replica, Type::TEXT));
        conditions.push(format!("replica = ${}", values.len()));
    }
    let members = [query.principal_member(), query.view_member()];
    for member in members.iter().flatten() {
        values.push((member, Type::TEXT));
        let at = values.len();
        conditions.push(format!(
            "position(${at} in split_part(metadata, '{ARGUMENTS}', 1)) > 0"
        ));
    }
    let limit = query.limit();
    let walk = |more: &str| {
        let conditions = conditions.join(" and ");
        format!(
            "(select {COLUMNS} from mcp_events where {conditions}{more} order by timestamp desc, id desc limit {limit})"
        )
    };
    let by_type = query.event_type.is_some() && query.trace_id.is_none() && status.is_none();
    let sql = if by_type {
        let walks =
            EventStatus::ALL.map(|status| walk(&format!(" and status = {}", status.number())));
        let walks = walks.join(" union all ");
        format!("select * from ({walks}) as found order by timestamp desc, id desc limit {limit}")
    } else {
        walk("")
    };
    let rows = client.query_typed(&sql, &values).await?;
    rows.iter().rev().map(record).collect()
}

/// Walks forwards along the ids, which ascend with the time of writing.
pub(super) async fn read(
    client: &Client,
    after: i64,
    since: i64,
    limit: usize,
) -> Result<Vec<(i64, Record)>, StoreError> {
    let sql = format!(
        "select {COLUMNS} from mcp_events where id > $1 and timestamp >= $2 order by id limit $3"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let values: [(&(dyn ToSql + Sync), Type); 3] = [
        (&after, Type::INT8),
        (&since, Type::INT8),
        (&limit, Type::INT8),
    ];
    let rows = client.query_typed(&sql, &values).await?;
    let found = rows.iter().map(|row| Ok((row.try_get(0)?, record(row)?)));
    found.collect()
}

fn record(row: &Row) -> Result<Record, StoreError> {
    let trace: &[u8] = row.try_get(2)?;
    let trace = trace.try_into();
    let trace = trace.map_err(|_| StoreError::unavailable("a trace id does not have 16 bytes"))?;
    let status: i16 = row.try_get(4)?;
    let record = Record::from_columns(
        row.try_get(1)?,
        trace,
        row.try_get(3)?,
        status.into(),
        row.try_get(5)?,
        row.try_get(6)?,
    );
    let replica = row.try_get(7)?;
    Ok(Record { replica, ..record })
}
