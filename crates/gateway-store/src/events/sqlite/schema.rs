//! The tables and the settings of the file.

use rusqlite::{Connection, TransactionBehavior};

use crate::events::StoreError;

/// The `application_id` of an event log: "mcpE".
const APPLICATION_ID: i32 = 0x6d63_7045;

/// The `user_version` of the tables.
const SCHEMA_VERSION: i32 = 2;

/// The column that files of earlier programs with this version do not have.
const ADD_PRINCIPAL: &str = "
    alter table events add column principal text;
    create index if not exists events_by_principal on events (principal);
";

/// Successful calls, which are most of the events, are in no index.
const TABLE: &str = "
    create table events (
        id integer primary key,
        timestamp integer not null,
        trace_id blob not null,
        event_type text not null,
        status integer not null,
        source text not null,
        metadata text not null,
        principal text
    ) strict;
    create index events_by_principal on events (principal);
    create index events_by_type on events (event_type) where event_type <> 'gateway.tool_call';
    create index events_by_status on events (status) where status <> 0;
    create table parts (
        id integer primary key,
        traces blob not null
    ) strict;
";

pub(super) const INSERT: &str = "
    insert into events (id, timestamp, trace_id, event_type, status, source, metadata, principal)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
";

/// Settings of the file: large pages, since many events are written at a time; incremental vacuum gives
/// free pages back to the disk; with a write-ahead log readers do not block the writer.
const FILE_SETTINGS: &str = "
    pragma page_size = 8192;
    pragma auto_vacuum = incremental;
    pragma journal_mode = wal;
";

/// Settings of each connection. A commit survives a crash of the gateway, but perhaps not a power
/// failure (`synchronous = normal`). None of them needs a writable file.
const CONNECTION_SETTINGS: &str = "
    pragma synchronous = normal;
    pragma wal_autocheckpoint = 500;
    pragma journal_size_limit = 4194304;
    pragma cache_size = -8192;
    pragma temp_store = memory;
";

/// Applies the settings, and creates the tables in a new file.
pub(super) fn prepare(connection: &mut Connection) -> Result<(), StoreError> {
    // Checked first, so that the file of another application is not changed.
    let empty = is_empty(connection)?;
    if !empty && !is_event_log(connection)? {
        return Err(StoreError::unavailable(
            "the file is not an event log of this version",
        ));
    }
    connection.execute_batch(CONNECTION_SETTINGS)?;
    if !empty {
        let column = "select count(*) from pragma_table_info('events') where name = 'principal'";
        let has_column = connection.query_row(column, [], |row| Ok(row.get::<_, i64>(0)? > 0))?;
        if !has_column && let Err(error) = connection.execute_batch(ADD_PRINCIPAL) {
            // Such as a file that is only read: that needs no column.
            tracing::debug!(%error, "the event log has no column for principals");
        }
        return Ok(());
    }
    connection.execute_batch(FILE_SETTINGS)?;
    let create = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have created the tables meanwhile.
    if is_empty(&create)? {
        create.execute_batch(TABLE)?;
        create.pragma_update(None, "application_id", APPLICATION_ID)?;
        create.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    }
    create.commit()?;
    Ok(())
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let tables = "select count(*) from sqlite_schema";
    connection.query_row(tables, [], |row| Ok(row.get::<_, i64>(0)? == 0))
}

fn is_event_log(connection: &Connection) -> rusqlite::Result<bool> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    Ok(number("application_id")? == APPLICATION_ID && number("user_version")? == SCHEMA_VERSION)
}
