//! The table, and how the file is set up.

use rusqlite::{Connection, TransactionBehavior};

use crate::events::Failure;

/// Marks the file as an event log of ours: "mcpE".
const APPLICATION: i32 = 0x6d63_7045;

/// The version of the table.
const VERSION: i32 = 2;

/// A call that went well, which is what most events are, is in no index.
const TABLE: &str = "
    create table events (
        id integer primary key,
        timestamp integer not null,
        trace_id blob not null,
        event_type text not null,
        status integer not null,
        source text not null,
        metadata text not null
    ) strict;
    create index events_by_type on events (event_type) where event_type <> 'gateway.tool_call';
    create index events_by_status on events (status) where status <> 0;
    create table parts (
        id integer primary key,
        traces blob not null
    ) strict;
";

pub(super) const INSERT: &str = "
    insert into events (id, timestamp, trace_id, event_type, status, source, metadata)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
";

/// Of the file: large pages, since events are written many at a time; what was removed is given back
/// to the disk, and readers do not stop the writer.
const FILE: &str = "
    pragma page_size = 8192;
    pragma auto_vacuum = incremental;
    pragma journal_mode = wal;
";

/// Of each connection. A commit survives our end, though perhaps not the last moments of a machine
/// without power (NORMAL). None of it needs the file to be writable.
const CONNECTION: &str = "
    pragma synchronous = normal;
    pragma wal_autocheckpoint = 500;
    pragma journal_size_limit = 4194304;
    pragma cache_size = -8192;
    pragma temp_store = memory;
";

/// Sets the connection up, and the file where it is new.
pub(super) fn prepare(connection: &mut Connection) -> Result<(), Failure> {
    // Looked at first: a file of somebody else is not touched.
    let empty = is_empty(connection)?;
    if !empty && !is_ours(connection)? {
        return Err(Failure::unavailable(
            "the file is not an event log of this version",
        ));
    }
    connection.execute_batch(CONNECTION)?;
    if !empty {
        return Ok(());
    }
    connection.execute_batch(FILE)?;
    let create = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Somebody else may have been faster.
    if is_empty(&create)? {
        create.execute_batch(TABLE)?;
        create.pragma_update(None, "application_id", APPLICATION)?;
        create.pragma_update(None, "user_version", VERSION)?;
    }
    create.commit()?;
    Ok(())
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let tables = "select count(*) from sqlite_schema";
    connection.query_row(tables, [], |row| Ok(row.get::<_, i64>(0)? == 0))
}

fn is_ours(connection: &Connection) -> rusqlite::Result<bool> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    Ok(number("application_id")? == APPLICATION && number("user_version")? == VERSION)
}
