//! The gateway's lasting state beside events: pinned tools and approvals.
//!
//! Entries with a kind and a key, in the same database as the events: a SQLite file, PostgreSQL, or memory. A
//! command in another process, or another gateway, may change them at any time; [`StateStore`] follows that.
//!
//! * [`database`]: the interface of a database; [`sqlite`] and [`postgres`]: the two of them.
//! * [`worker`]: the thread of a running gateway that reads and writes, so that no call waits for a database.
//!
//! While the database is not available, the entries that were read last hold, and changes fail.

mod database;
mod postgres;
mod sqlite;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

pub use self::database::{
    Entry, EntryChange, EntryKind, EntryRow, Expected, StateClock, StateDatabase,
};
use self::worker::{Job, Worker};
use crate::events::{Database, StoreError, StoreLocation};

/// Limit for the changes that wait for the database.
const MAX_WAITING_JOBS: usize = 1_000;

/// The entries at one time.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    by_key: BTreeMap<(EntryKind, String), Entry>,
    /// True once they were read from the database.
    pub are_read: bool,
}

impl Entries {
    /// Returns the entry with this kind and key.
    pub fn get(&self, kind: EntryKind, key: &str) -> Option<&Entry> {
        self.by_key.get(&(kind, key.to_owned()))
    }

    /// The entries of one kind whose keys begin with `prefix`, in the order of their keys.
    pub fn matching(&self, kind: EntryKind, prefix: &str) -> impl Iterator<Item = (&str, &Entry)> {
        let first = (kind, prefix.to_owned());
        let from = self.by_key.range(first..);
        from.take_while(move |((found, key), _)| *found == kind && key.starts_with(prefix))
            .map(|((_, key), entry)| (key.as_str(), entry))
    }

    /// Reads all entries of a database.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read(database: &mut dyn StateDatabase) -> Result<Self, StoreError> {
        let mut entries = Self::default();
        entries.add(database.changes(0)?);
        entries.are_read = true;
        Ok(entries)
    }

    /// Entries of one kind, with rising revisions, for tests.
    pub fn with_kind(kind: EntryKind, values: impl IntoIterator<Item = (String, String)>) -> Self {
        let rows = values.into_iter().zip(1..);
        let rows = rows.map(|((key, value), revision)| database::EntryRow {
            kind,
            key,
            value: Some(value.into()),
            revision,
        });
        let mut entries = Self::default();
        entries.add(rows.collect());
        entries
    }

    fn add(&mut self, rows: Vec<database::EntryRow>) {
        for row in rows {
            let key = (row.kind, row.key);
            match row.value {
                Some(value) => {
                    let revision = row.revision;
                    self.by_key.insert(key, Entry { value, revision });
                }
                None => drop(self.by_key.remove(&key)),
            }
        }
    }
}

/// Opens the state in the database of the events.
///
/// # Errors
/// When it cannot be opened, or belongs to a newer gateway.
pub fn open(location: &StoreLocation) -> Result<Box<dyn StateDatabase>, StoreError> {
    Ok(match location.connect()? {
        Database::Sqlite(file) => Box::new(sqlite::SqliteState::new(file)?),
        Database::Postgres(connection) => Box::new(postgres::PostgresState::new(connection)?),
    })
}

/// The state of a running gateway. Reading it never waits.
pub struct StateStore {
    jobs: SyncSender<Job>,
    entries: watch::Receiver<Arc<Entries>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl StateStore {
    /// Starts the thread that reads, writes and follows the state.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(location: StoreLocation) -> std::io::Result<Self> {
        let (jobs, waiting) = sync_channel(MAX_WAITING_JOBS);
        let (sender, entries) = watch::channel(Arc::default());
        let run = move || Worker::new(location, waiting, sender).run();
        let thread = std::thread::Builder::new()
            .name("state".into())
            .spawn(run)?;
        Ok(Self {
            jobs,
            entries,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The entries that were read last.
    pub fn entries(&self) -> Arc<Entries> {
        Arc::clone(&self.entries.borrow())
    }

    /// A receiver that is notified of every change of the entries.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Entries>> {
        self.entries.clone()
    }

    /// Reads what other processes have changed, at once.
    ///
    /// # Errors
    /// The database cannot be used now.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        self.change(Vec::new()).await.map(drop)
    }

    /// Makes all of these changes, or none if one of them expects another entry. Returns true if they were made.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn change(&self, changes: Vec<EntryChange>) -> Result<bool, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.send(Job::Change(changes, Some(answer)))?;
        let stopped = |_| StoreError::unavailable("the gateway is stopping");
        answered.await.map_err(stopped)?
    }

    /// The same, without waiting for the outcome: [`StateStore::subscribe`] shows it.
    pub fn request_change(&self, changes: Vec<EntryChange>) {
        if let Err(error) = self.send(Job::Change(changes, None)) {
            tracing::warn!(reason = error.reason, "a change of the state is not stored");
        }
    }

    fn send(&self, job: Job) -> Result<(), StoreError> {
        let busy = |_| StoreError::unavailable("too many changes wait for the database");
        self.jobs.try_send(job).map_err(busy)
    }

    /// Makes the changes that wait, and stops the thread. Blocks for a few seconds at most.
    pub fn close(&self) {
        // A full queue is emptied by the thread.
        let _ = self.jobs.send(Job::Close);
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the state has panicked");
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
