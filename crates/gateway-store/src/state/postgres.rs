//! The state in the PostgreSQL database of the events.

use std::sync::Arc;

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::database::{
    EntryChange, EntryKind, EntryRow, MAX_REMOVED_AGE, SCHEMA_VERSION, StateClock, StateDatabase,
    check_version,
};
use crate::events::{PostgresConnection, StoreError};

/// Created under the lock of the events, so that gateways that start together do not create them twice. The clock comes
/// first, as in a change: with the table locked, it would wait for a change that waits for the table.
const TABLES: &str = "
    begin;
    select pg_advisory_xact_lock(7881696731013112436);
    create table if not exists mcp_state_clock (
        id integer primary key check (id = 1),
        version bigint not null,
        database text not null,
        revision bigint not null
    );
    insert into mcp_state_clock (id, version, database, revision)
        values (1, VERSION, 'NAME', 0) on conflict do nothing;
    create table if not exists mcp_state (
        kind text not null,
        key text not null,
        value text,
        revision bigint not null,
        primary key (kind, key)
    );
    create index if not exists mcp_state_by_revision on mcp_state (revision);
    commit;
    set synchronous_commit = on;
";

/// Counts the changes that expect another entry.
const CONFLICTS: &str = "
    select count(*) from unnest($1::text[], $2::text[], $3::bigint[]) as change (kind, key, expected)
        left join mcp_state as found
            on found.kind = change.kind and found.key = change.key and found.value is not null
        where change.expected >= 0 and change.expected <> coalesce(found.revision, 0)
";

const STORE: &str = "
    insert into mcp_state (kind, key, value, revision)
        select kind, key, value, $4 from unnest($1::text[], $2::text[], $3::text[]) as change (kind, key, value)
        on conflict (kind, key) do update set value = excluded.value, revision = excluded.revision
";

pub(super) struct PostgresState(PostgresConnection);

impl PostgresState {
    pub(super) fn new(connection: PostgresConnection) -> Result<Self, StoreError> {
        let name = Uuid::new_v4().simple().to_string();
        let tables = TABLES.replace("VERSION", &SCHEMA_VERSION.to_string());
        let tables = tables.replace("NAME", &name);
        let client = &connection.client;
        let version = connection.within(async {
            client.batch_execute(&tables).await?;
            let version = "select version from mcp_state_clock";
            let rows = client.query_typed(version, &[]).await?;
            Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
        })?;
        check_version(version.unwrap_or_default())?;
        Ok(Self(connection))
    }
}

impl StateDatabase for PostgresState {
    fn clock(&mut self) -> Result<StateClock, StoreError> {
        let client = &self.0.client;
        self.0.within(async {
            let clock = "select database, revision from mcp_state_clock";
            let rows = client.query_typed(clock, &[]).await?;
            let gone = || StoreError::unavailable("the state was removed from the database");
            let row = rows.first().ok_or_else(gone)?;
            Ok(StateClock {
                database: row.try_get(0)?,
                revision: row.try_get(1)?,
            })
        })
    }

    fn changes(&mut self, after: i64) -> Result<Vec<EntryRow>, StoreError> {
        let client = &self.0.client;
        self.0.within(async {
            let changed = "select kind, key, value, revision from mcp_state where revision > $1";
            let rows = client.query_typed(changed, &[(&after, Type::INT8)]).await?;
            let mut changes = Vec::with_capacity(rows.len());
            for row in rows {
                let Some(kind) = EntryKind::from_name(row.try_get(0)?) else {
                    continue;
                };
                let value: Option<&str> = row.try_get(2)?;
                changes.push(EntryRow {
                    kind,
                    key: row.try_get(1)?,
                    value: value.map(Arc::from),
                    revision: row.try_get(3)?,
                });
            }
            Ok(changes)
        })
    }

    fn apply(&mut self, changes: &[EntryChange]) -> Result<bool, StoreError> {
        let kinds: Vec<&str> = changes.iter().map(|change| change.kind.name()).collect();
        let keys: Vec<&str> = changes.iter().map(|change| change.key.as_str()).collect();
        let expected = changes.iter().map(|change| change.expected.number());
        let expected: Vec<i64> = expected.collect();
        let values: Vec<Option<&str>> = changes
            .iter()
            .map(|change| change.value.as_deref())
            .collect();
        let PostgresConnection {
            client, runtime, ..
        } = &mut self.0;
        PostgresConnection::block_on(runtime, async {
            let work = client.transaction().await?;
            // Locks the row until the commit: revisions become visible in their order.
            let next = "update mcp_state_clock set revision = revision + 1 returning revision";
            let next = work.query_typed(next, &[]).await?;
            let gone = || StoreError::unavailable("the state was removed from the database");
            let next: i64 = next.first().ok_or_else(gone)?.try_get(0)?;
            let checked: [(&(dyn ToSql + Sync), Type); 3] = [
                (&kinds, Type::TEXT_ARRAY),
                (&keys, Type::TEXT_ARRAY),
                (&expected, Type::INT8_ARRAY),
            ];
            let conflicts = work.query_typed(CONFLICTS, &checked).await?;
            let conflicts = conflicts.first().map(|row| row.try_get::<_, i64>(0));
            if conflicts.transpose()? != Some(0) {
                return Ok(false);
            }
            let stored: [(&(dyn ToSql + Sync), Type); 4] = [
                (&kinds, Type::TEXT_ARRAY),
                (&keys, Type::TEXT_ARRAY),
                (&values, Type::TEXT_ARRAY),
                (&next, Type::INT8),
            ];
            work.execute_typed(STORE, &stored).await?;
            let purge = "delete from mcp_state where value is null and revision < $1";
            let oldest = next - MAX_REMOVED_AGE;
            work.execute_typed(purge, &[(&oldest, Type::INT8)]).await?;
            work.commit().await?;
            Ok(true)
        })
    }
}
