//! The tables of the database, for SQLite and for PostgreSQL.

use super::StoreError;
use super::location::new_name;

/// The version of the tables. A change of them adds to it.
pub(super) const VERSION: i64 = 4;

/// In the words of SQLite. In `mcp_state` a `value` that is null marks a removed entry. `mcp_database` has one row: the
/// identity of the database, and the revision of the last change of the state.
///
/// Equal denials of one minute have one `denial`, and are one event with their `count`.
///
/// An index leaves out the value that most events have: without it the newest ones are the place to look.
///
/// `mcp_usage` has the number of events of each principal, and their bytes; those without one are under an empty name.
const TABLES: &str = "
    create table mcp_events (
        id integer primary key,
        timestamp integer not null,
        trace_id blob not null,
        event_type text not null,
        status integer not null,
        source text not null,
        replica text,
        principal text not null,
        view text,
        backend text,
        item text,
        outcome text,
        kind text,
        bytes integer not null,
        metadata text not null,
        denial text,
        count integer not null
    ) strict;
    create index mcp_events_by_trace on mcp_events (trace_id);
    create index mcp_events_by_type on mcp_events (event_type, PLACE) where event_type <> 'gateway.tool_call';
    create index mcp_events_by_status on mcp_events (status, PLACE) where status <> 0;
    create index mcp_events_by_principal on mcp_events (principal, PLACE);
    create index mcp_events_by_view on mcp_events (view, PLACE) where view is not null;
    create index mcp_events_by_backend on mcp_events (backend, PLACE);
    create index mcp_events_by_item on mcp_events (item, PLACE);
    create index mcp_events_by_outcome on mcp_events (outcome, PLACE) where outcome <> 'ok';
    create index mcp_events_by_kind on mcp_events (kind, PLACE) where kind is not null;
    create unique index mcp_events_by_denial on mcp_events (denial) where denial is not null;
    create table mcp_usage (
        principal text primary key,
        events integer not null,
        bytes integer not null
    ) strict;
    create table mcp_state (
        kind text not null,
        key text not null,
        value text,
        revision integer not null,
        primary key (kind, key)
    ) strict;
    create index mcp_state_by_revision on mcp_state (revision);
    create table mcp_database (
        one integer not null unique check (one = 1),
        version integer not null,
        name text not null,
        revision integer not null
    ) strict;
    insert into mcp_database (one, version, name, revision) values (1, VERSION, 'NAME', 0);
";

/// More tables, for the gateways that share a PostgreSQL; see [`shared`](crate::shared).
const SHARED_TABLES: &str = "
    create index mcp_events_by_time on mcp_events (timestamp, id);
    create table mcp_sessions (
        session bytea primary key,
        gateway integer not null,
        claimed timestamptz not null default now(),
        ended timestamptz
    );
    create table mcp_tasks (
        owner bytea,
        id text,
        gateway integer not null,
        task text not null,
        has_ended boolean not null,
        created timestamptz not null default now(),
        expires timestamptz not null,
        primary key (owner, id)
    );
    create index mcp_tasks_by_expiry on mcp_tasks (expires);
";

/// Returns the statements that create the tables in SQLite. Entries of an index end with the id anyway.
pub(super) fn for_sqlite() -> String {
    named().replace(", PLACE", "")
}

/// Returns the statements that create the tables in PostgreSQL.
pub(super) fn for_postgres() -> String {
    let tables = named()
        .replace(" strict", "")
        .replace(
            "id integer primary key",
            "id bigint generated always as identity primary key",
        )
        .replace("integer", "bigint")
        .replace("blob", "bytea")
        .replace("PLACE", "timestamp, id");
    tables + SHARED_TABLES
}

fn named() -> String {
    let tables = TABLES.replace("VERSION", &VERSION.to_string());
    tables.replace("NAME", &new_name())
}

/// Checks the version of the tables in a database.
pub(super) fn check(version: i64) -> Result<(), StoreError> {
    let text = match version {
        VERSION => return Ok(()),
        newer if newer > VERSION => "of a newer gateway",
        _ => "of an earlier gateway, and is not read: move it away",
    };
    Err(StoreError::unavailable(format!(
        "the event log has version {version}, {text}; this gateway has version {VERSION}"
    )))
}
