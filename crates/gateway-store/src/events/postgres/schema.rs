//! The tables and the settings of the connection.

/// Without waiting for the disk: the newest events can be lost if the database server crashes.
pub(super) const CONNECTION: &str = "
    set synchronous_commit = off;
    set statement_timeout = '4s';
    set lock_timeout = '2s';
";

/// `mcp_events_clock` has the time of the last removal. One transaction with a lock, so that gateways that start together do not create the table twice.
/// The columns `replica` and `principal` came later: gateways of the version before do not write them.
pub(super) const TABLE: &str = "
    begin;
    select pg_advisory_xact_lock(7881696731013112436);
    create table if not exists mcp_events (
        id bigint generated always as identity primary key,
        timestamp bigint not null,
        trace_id bytea not null,
        event_type text not null,
        status smallint not null,
        source text not null,
        metadata text not null
    );
    create table if not exists mcp_events_clock (
        id integer primary key check (id = 1),
        time bigint not null
    );
    do $$ begin
        if not exists (
            select from pg_attribute where attrelid = 'mcp_events'::regclass and attname = 'replica'
        ) then
            alter table mcp_events add column replica text;
        end if;
        if not exists (
            select from pg_attribute where attrelid = 'mcp_events'::regclass and attname = 'principal'
        ) then
            alter table mcp_events add column principal text;
        end if;
    end $$;
    create index if not exists mcp_events_by_time on mcp_events (timestamp, id);
    create index if not exists mcp_events_by_principal on mcp_events (principal, timestamp, id);
    create index if not exists mcp_events_by_trace on mcp_events (trace_id);
    create index if not exists mcp_events_by_type on mcp_events (event_type, status, timestamp, id);
    create index if not exists mcp_events_by_status on mcp_events (status, timestamp, id);
    commit;
";

pub(super) const INSERT: &str = "
    insert into mcp_events (timestamp, trace_id, event_type, status, source, metadata, principal, replica)
    select *, $8::text from unnest($1::bigint[], $2::bytea[], $3::text[], $4::smallint[], $5::text[], $6::text[], $7::text[])
";
