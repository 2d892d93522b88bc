//! The table of the state: reads it, and makes changes.

use std::sync::Arc;

use super::Entries;
use super::entry::{EntryChange, EntryKind, EntryRow, Expected};
use crate::database::{Connection, StoreError, Value};

/// Removed entries are kept for this number of changes, so that other gateways see that they are gone.
const MAX_REMOVED_AGE: i64 = 10_000;

/// Stores a value with the revision `$4` if the entry has the expected revision `$5`: 0 for a missing entry, -1 for any.
/// Changes no row otherwise.
const STORE: &str = "
    insert into mcp_state (kind, key, value, revision)
        select $1, $2, $3, $4 where $5 <= 0 or exists (select 1 from mcp_state where kind = $1 and key = $2)
    on conflict (kind, key) do update set value = excluded.value, revision = excluded.revision
        where $5 = -1 or $5 = case when mcp_state.value is null then 0 else mcp_state.revision end
";

/// Locks the row until the commit: revisions become visible in their order.
const NEXT_REVISION: &str =
    "update mcp_database set revision = revision + 1 where one = 1 returning revision";

/// The identity of a database, and the revision of its last change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateClock {
    database: Box<str>,
    revision: i64,
}

pub(crate) fn clock(connection: &mut Connection) -> Result<StateClock, StoreError> {
    let rows = connection.query("select name, revision from mcp_database", &[])?;
    let row = rows.first().ok_or_else(gone)?;
    Ok(StateClock {
        database: row.text(0).unwrap_or_default().into(),
        revision: row.integer(1),
    })
}

fn gone() -> StoreError {
    StoreError::unavailable("the state was removed from the database")
}

/// Returns the entries that have changed after this revision, also removed ones; all for 0.
pub(super) fn changes(
    connection: &mut Connection,
    after: i64,
) -> Result<Vec<EntryRow>, StoreError> {
    let changed = "select kind, key, value, revision from mcp_state where revision > $1";
    let rows = connection.query(changed, &[after.into()])?;
    let rows = rows.iter().filter_map(|row| {
        Some(EntryRow {
            kind: EntryKind::from_name(row.text(0)?)?,
            key: row.text(1)?.to_owned(),
            value: row.text(2).map(Arc::from),
            revision: row.integer(3),
        })
    });
    Ok(rows.collect())
}

/// Makes all of these changes, or none if one of them expects another entry. Returns true if they were made.
pub(crate) fn apply(
    connection: &mut Connection,
    changes: &[EntryChange],
) -> Result<bool, StoreError> {
    connection.in_transaction(true, |connection| {
        let next = connection.query(NEXT_REVISION, &[])?;
        let next = next.first().ok_or_else(gone)?.integer(0);
        let rows = changes.iter().map(|change| {
            vec![
                Value::from(change.kind.name()),
                Value::from(change.key.as_str()),
                Value::Text(change.value.as_deref().map(Into::into)),
                Value::Integer(next),
                Value::Integer(change.expected.number()),
            ]
        });
        let rows: Vec<Vec<Value>> = rows.collect();
        let stored = connection.execute(STORE, &rows)?;
        if stored.iter().any(|rows| *rows != 1) {
            return Ok(false);
        }
        let purge = "delete from mcp_state where value is null and revision < $1";
        connection.execute(purge, &[vec![Value::Integer(next - MAX_REMOVED_AGE)]])?;
        Ok(true)
    })
}

/// Returns the entries after what has changed since `known` was read at the clock `before`. What was in a database that
/// was replaced is not lost: it is stored again.
pub(crate) fn follow(
    connection: &mut Connection,
    known: &Entries,
    before: &StateClock,
    now: StateClock,
) -> Result<(Entries, StateClock), StoreError> {
    let is_other = now.database != before.database;
    if known.are_read && !is_other && now.revision - before.revision < MAX_REMOVED_AGE {
        let mut entries = known.clone();
        entries.add(changes(connection, before.revision)?);
        return Ok((entries, now));
    }
    let found = all(connection)?;
    let lost = known.by_key.iter().filter(|_| is_other && known.are_read);
    let missing = lost.filter(|(key, _)| !found.by_key.contains_key(*key));
    let missing = missing.map(|((kind, key), entry)| EntryChange {
        kind: *kind,
        key: key.clone(),
        expected: Expected::Missing,
        value: Some(Arc::clone(&entry.value)),
    });
    let missing: Vec<EntryChange> = missing.collect();
    if missing.is_empty() {
        return Ok((found, now));
    }
    tracing::warn!(
        count = missing.len(),
        "the state is stored again in a new database"
    );
    apply(connection, &missing)?;
    let now = clock(connection)?;
    Ok((all(connection)?, now))
}

pub(super) fn all(connection: &mut Connection) -> Result<Entries, StoreError> {
    let mut entries = Entries::default();
    entries.add(changes(connection, 0)?);
    entries.are_read = true;
    Ok(entries)
}
