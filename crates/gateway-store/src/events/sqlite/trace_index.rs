//! A coarse index of trace ids.
//!
//! Trace ids are random: in a usual index each event would change another page, and pages are the cost
//! of writing. Instead, each row of the table `parts` stands for some hundred consecutive events and
//! has four bytes of the trace id of each. A search reads this table, and then the events of the few
//! parts that can contain the trace.

use rusqlite::{Connection, params};

use crate::events::{Record, TraceId};

/// Size of a full row, for a thousand events.
const MAX_PART_BYTES: i64 = 4_000;

/// Adds these events, which are the newest; `first` is the id of the first one.
pub(super) fn add(connection: &Connection, records: &[Record], first: i64) -> rusqlite::Result<()> {
    let suffixes: Vec<u8> = records
        .iter()
        .flat_map(|record| trace_suffix(record.trace_id))
        .collect();
    // The result of `||` is text, also for blobs.
    let grow = "update parts set traces = cast(traces || ?1 as blob)
        where id = (select max(id) from parts) and length(traces) + length(?1) <= ?2";
    let grown = connection
        .prepare_cached(grow)?
        .execute(params![suffixes, MAX_PART_BYTES])?;
    if grown == 0 {
        let begin = "insert into parts (id, traces) values (?1, ?2)";
        connection
            .prepare_cached(begin)?
            .execute(params![first, suffixes])?;
    }
    Ok(())
}

/// Removes parts without remaining events.
pub(super) fn remove_unused(connection: &Connection) -> rusqlite::Result<()> {
    // Not the last one, to which new events are added. What principals keep is not always the newest.
    let remove = "delete from parts where id < (select max(id) from parts) and not exists (
        select 1 from events where events.id >= parts.id
            and events.id < (select min(later.id) from parts as later where later.id > parts.id))";
    connection.prepare_cached(remove)?.execute([]).map(drop)
}

/// Returns the bytes of a trace id in the index: its end, which generators choose at random.
pub(super) fn trace_suffix(trace: TraceId) -> [u8; 4] {
    let [.., a, b, c, d] = trace.to_bytes();
    [a, b, c, d]
}
