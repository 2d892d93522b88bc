//! Where in the log to look for a trace.
//!
//! Trace ids are random: in an index each event would change a page of its own, and pages are what
//! writing costs. So there is a list instead, a row of which stands for some hundred events that
//! follow each other, and has a few bytes of the trace id of each. Whoever looks for a trace reads
//! the list, and then the events of the few rows in which it may be.

use rusqlite::{Connection, params};

use crate::events::{Record, TraceId};

/// Bytes in a row that is full: of a thousand events, which are soon looked through.
const FULL: i64 = 4_000;

/// Adds the parts of these events, which are the newest; the first of them has this id.
pub(super) fn add(connection: &Connection, records: &[Record], first: i64) -> rusqlite::Result<()> {
    let marks: Vec<u8> = records
        .iter()
        .flat_map(|record| mark(record.trace_id))
        .collect();
    // Joined, blobs are text.
    let grow = "update parts set traces = cast(traces || ?1 as blob)
        where id = (select max(id) from parts) and length(traces) + length(?1) <= ?2";
    let grown = connection
        .prepare_cached(grow)?
        .execute(params![marks, FULL])?;
    if grown == 0 {
        let begin = "insert into parts (id, traces) values (?1, ?2)";
        connection
            .prepare_cached(begin)?
            .execute(params![first, marks])?;
    }
    Ok(())
}

/// Removes the parts of which no event is left.
pub(super) fn tidy(connection: &Connection) -> rusqlite::Result<()> {
    let tidy = "delete from parts where id <
        (select max(id) from parts where id <= (select min(id) from events))";
    connection.prepare_cached(tidy)?.execute([]).map(drop)
}

/// What the list has of a trace id: its end, the part that generators choose at random.
pub(super) fn mark(trace: TraceId) -> [u8; 4] {
    let [.., a, b, c, d] = trace.to_bytes();
    [a, b, c, d]
}
