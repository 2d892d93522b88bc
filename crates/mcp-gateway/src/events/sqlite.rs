//! Events in one SQLite file.
//!
//! An event's row id is the time of its writing in microseconds, or one more than the last id where
//! that is not greater. So ids are unique, ascending, never below the timestamp, and every index
//! ends with the order in which events are asked for and removed.

mod failure;
mod file;
mod find;
mod part;
mod retain;
mod schema;

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior, params};
use upstream::time::Timestamp;

use self::file::FileId;
pub(super) use self::file::put_aside;
use super::query::Query;
use super::record::Record;
use super::store::{Failure, Retention, Store};

/// How long another process may hold the file before we try again later.
const BUSY: Duration = Duration::from_millis(250);

pub(super) struct Sqlite {
    connection: Connection,
    /// Which file it was when it was opened; `None` in memory.
    file: Option<FileId>,
    /// Rows, as counted and then reckoned: others may write too.
    rows: u64,
    counted: Instant,
}

impl Sqlite {
    /// Opens or creates the file, its folder included.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        file::prepare(path)?;
        let connection = Connection::open(path)?;
        let file = file::id(path)?;
        Self::with(connection, Some(file))
    }

    pub(super) fn in_memory() -> Result<Self, Failure> {
        Self::with(Connection::open_in_memory()?, None)
    }

    fn with(mut connection: Connection, file: Option<FileId>) -> Result<Self, Failure> {
        connection.busy_timeout(BUSY)?;
        connection.set_prepared_statement_cache_capacity(32);
        schema::prepare(&mut connection)?;
        let rows = retain::count(&connection)?;
        Ok(Self {
            connection,
            file,
            rows,
            counted: Instant::now(),
        })
    }

    /// A file that was removed or replaced takes our writes and shows them to nobody.
    fn check_file(&self) -> Result<(), Failure> {
        match &self.file {
            Some(file) if !file.is_in_place() => {
                Err(Failure::unavailable("the file was removed or replaced"))
            }
            _ => Ok(()),
        }
    }
}

impl Store for Sqlite {
    fn append(&mut self, records: &[Record]) -> Result<(), Failure> {
        self.check_file()?;
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut id = newest(&transaction)?;
        if let Some(first) = records.first() {
            part::add(&transaction, records, following(id, first))?;
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
                ])?;
            }
        }
        transaction.commit()?;
        self.rows += records.len() as u64;
        Ok(())
    }

    fn find(&mut self, query: &Query) -> Result<Vec<Record>, Failure> {
        find::find(&self.connection, query)
    }

    fn retain(&mut self, retention: &Retention, now: Timestamp) -> Result<bool, Failure> {
        self.check_file()?;
        self.remove_excess(retention, now)
    }
}

/// The id of the newest event; where all were removed, of one that was there.
fn newest(connection: &Connection) -> rusqlite::Result<i64> {
    let newest = "select max(
        (select coalesce(max(id), 0) from events),
        (select coalesce(max(id), 0) from parts))";
    connection
        .prepare_cached(newest)?
        .query_row([], |row| row.get(0))
}

/// The id of an event that follows that with the id `last`.
fn following(last: i64, record: &Record) -> i64 {
    record.micros().max(last.saturating_add(1))
}
