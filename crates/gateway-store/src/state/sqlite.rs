//! The state in the SQLite file of the events, or in memory.

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use uuid::Uuid;

use super::database::{
    EntryChange, EntryKind, EntryRow, MAX_REMOVED_AGE, SCHEMA_VERSION, StateClock, StateDatabase,
    check_version,
};
use crate::events::{SqliteDatabase, StoreError};

const TABLES: &str = "
    create table state (
        kind text not null,
        key text not null,
        value text,
        revision integer not null,
        primary key (kind, key)
    ) strict, without rowid;
    create index state_by_revision on state (revision);
    create table state_clock (
        id integer primary key check (id = 1),
        version integer not null,
        database text not null,
        revision integer not null
    ) strict;
";

/// A decision survives a power failure; events need not.
const CONNECTION_SETTINGS: &str = "
    pragma synchronous = full;
    pragma busy_timeout = 2000;
";

pub(super) struct SqliteState(SqliteDatabase);

impl SqliteState {
    pub(super) fn new(mut database: SqliteDatabase) -> Result<Self, StoreError> {
        database.connection.execute_batch(CONNECTION_SETTINGS)?;
        if version(&database.connection)?.is_none() {
            let kind = TransactionBehavior::Immediate;
            let create = database.connection.transaction_with_behavior(kind)?;
            // Another process may have created them meanwhile.
            if version(&create)?.is_none() {
                create.execute_batch(TABLES)?;
                let clock = "insert into state_clock (id, version, database, revision) values (1, ?1, ?2, 0)";
                let name = Uuid::new_v4().simple().to_string();
                create.execute(clock, params![SCHEMA_VERSION, name])?;
            }
            create.commit()?;
        }
        check_version(version(&database.connection)?.unwrap_or_default())?;
        Ok(Self(database))
    }
}

/// Returns the version of the tables; `None` without them.
fn version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let exists = "select count(*) from sqlite_schema where name = 'state_clock'";
    if connection.query_row(exists, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(None);
    }
    connection
        .query_row("select version from state_clock", [], |row| row.get(0))
        .optional()
}

impl StateDatabase for SqliteState {
    fn clock(&mut self) -> Result<StateClock, StoreError> {
        self.0.verify()?;
        let clock = "select database, revision from state_clock";
        let mut clock = self.0.connection.prepare_cached(clock)?;
        Ok(clock.query_row([], |row| {
            Ok(StateClock {
                database: row.get(0)?,
                revision: row.get(1)?,
            })
        })?)
    }

    fn changes(&mut self, after: i64) -> Result<Vec<EntryRow>, StoreError> {
        let changed = "select kind, key, value, revision from state where revision > ?1";
        let mut changed = self.0.connection.prepare_cached(changed)?;
        let rows = changed.query_map([after], |row| {
            let kind = EntryKind::from_name(&row.get::<_, String>(0)?);
            let (key, value, revision) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(kind.map(|kind| EntryRow {
                kind,
                key,
                value,
                revision,
            }))
        })?;
        let rows: rusqlite::Result<Vec<_>> = rows.collect();
        Ok(rows?.into_iter().flatten().collect())
    }

    fn apply(&mut self, changes: &[EntryChange]) -> Result<bool, StoreError> {
        self.0.verify()?;
        let kind = TransactionBehavior::Immediate;
        let work = self.0.connection.transaction_with_behavior(kind)?;
        let next = "update state_clock set revision = revision + 1 returning revision";
        let next: i64 = work.query_row(next, [], |row| row.get(0))?;
        {
            let found =
                "select revision from state where kind = ?1 and key = ?2 and value is not null";
            let mut found = work.prepare_cached(found)?;
            let store = "insert into state (kind, key, value, revision) values (?1, ?2, ?3, ?4)
                on conflict (kind, key) do update set value = excluded.value, revision = excluded.revision";
            let mut store = work.prepare_cached(store)?;
            for change in changes {
                let (kind, key) = (change.kind.name(), change.key.as_str());
                let revision = found.query_row([kind, key], |row| row.get::<_, i64>(0));
                let revision = revision.optional()?.unwrap_or_default();
                let expected = change.expected.number();
                if expected >= 0 && expected != revision {
                    // Dropped transactions are rolled back.
                    return Ok(false);
                }
                store.execute(params![kind, key, change.value, next])?;
            }
        }
        let purge = "delete from state where value is null and revision < ?1";
        work.execute(purge, [next - MAX_REMOVED_AGE])?;
        work.commit()?;
        Ok(true)
    }
}
