//! An event store in one SQLite file.
//!
//! The row id of an event is its timestamp in microseconds, or the last id plus one if that is
//! greater. So ids are unique, ascending and never below the timestamp, and every index ends with the
//! order in which events are queried and removed.

mod file;
mod find;
mod retain;
mod schema;
mod trace_index;

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};
use upstream::time::Timestamp;

use self::file::FileId;
pub(super) use self::file::quarantine;
use super::record::Record;
use super::shares::Shares;
use super::store::{Query, Retention, Store, StoreError, StoreFault};

/// Longest wait for the lock of another process.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);

/// An open file, in which the tables of the events are; or a database in memory.
pub(crate) struct SqliteDatabase {
    pub(crate) connection: Connection,
    /// The identity of the open file; `None` in memory.
    file: Option<FileId>,
}

impl SqliteDatabase {
    /// Opens the file. Creates it and its folder if they are missing.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        file::prepare(path)?;
        let connection = Connection::open(path)?;
        let file = file::id(path)?;
        Self::with(connection, Some(file))
    }

    pub(super) fn in_memory() -> Result<Self, StoreError> {
        Self::with(Connection::open_in_memory()?, None)
    }

    fn with(mut connection: Connection, file: Option<FileId>) -> Result<Self, StoreError> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(32);
        schema::prepare(&mut connection)?;
        Ok(Self { connection, file })
    }

    /// Returns an error if the file was removed or replaced: writes to the open file would be lost.
    pub(crate) fn verify(&mut self) -> Result<(), StoreError> {
        if self.file.as_mut().is_none_or(FileId::is_in_place) {
            return Ok(());
        }
        let reason = "the file was removed or replaced; earlier events are not in the new one";
        Err(StoreError {
            fault: StoreFault::Replaced,
            reason: reason.to_owned(),
        })
    }
}

pub(super) struct Sqlite {
    database: SqliteDatabase,
    /// Number of rows: counted, and then updated with each write; other processes may write too.
    rows: u64,
    /// The events of each principal; counted when there are too many for the first time, and then updated.
    shares: Option<Shares>,
    counted_at: Instant,
}

impl Sqlite {
    pub(super) fn new(database: SqliteDatabase) -> Result<Self, StoreError> {
        let rows = retain::count(&database.connection)?;
        Ok(Self {
            database,
            rows,
            shares: None,
            counted_at: Instant::now(),
        })
    }
}

impl Store for Sqlite {
    fn verify(&mut self) -> Result<(), StoreError> {
        self.database.verify()
    }

    fn append(&mut self, records: &[Record]) -> Result<(), StoreError> {
        self.verify()?;
        let transaction = self
            .database
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut id = newest(&transaction)?;
        if let Some(first) = records.first() {
            trace_index::add(&transaction, records, following(id, first))?;
        }
        {
            let mut insert = transaction.prepare_cached(schema::INSERT)?;
            for record in records {
                id = following(id, record);
                insert.execute(params![
                    id,
                    record.micros(),
                    record.trace_id.to_bytes(),
                    record.event_type,
                    record.status.number(),
                    record.source,
                    record.metadata,
                    record.principal,
                ])?;
            }
        }
        transaction.commit()?;
        self.rows += records.len() as u64;
        if let Some(shares) = &mut self.shares {
            for record in records {
                *shares.entry(record.principal.clone()).or_default() += 1;
            }
        }
        Ok(())
    }

    fn find(&mut self, query: &Query) -> Result<Vec<Record>, StoreError> {
        self.verify()?;
        find::find(&self.database.connection, query)
    }

    fn read(
        &mut self,
        after: i64,
        since: i64,
        limit: usize,
    ) -> Result<Vec<(i64, Record)>, StoreError> {
        self.verify()?;
        find::read(&self.database.connection, after, since, limit)
    }

    fn clock(&mut self) -> Result<Option<Timestamp>, StoreError> {
        Ok(retain::clock(&self.database.connection)?)
    }

    fn retain(&mut self, retention: &Retention, now: Timestamp) -> Result<bool, StoreError> {
        self.verify()?;
        let has_more = self.remove_excess(retention, now)?;
        // After the removal, which makes room on a full disk.
        retain::set_clock(&self.database.connection, now)?;
        Ok(has_more)
    }
}

/// Returns the id of the newest event; if all were removed, that of an earlier one.
fn newest(connection: &Connection) -> rusqlite::Result<i64> {
    let newest = "select max(
        (select coalesce(max(id), 0) from events),
        (select coalesce(max(id), 0) from parts))";
    connection
        .prepare_cached(newest)?
        .query_row([], |row| row.get(0))
}

/// Returns the id of an event that comes after the id `last`.
fn following(last: i64, record: &Record) -> i64 {
    record.micros().max(last.saturating_add(1))
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let fault = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreFault::Corrupt,
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => {
                StoreFault::Rejected
            }
            _ => StoreFault::Unavailable,
        };
        Self {
            fault,
            reason: error.to_string(),
        }
    }
}
