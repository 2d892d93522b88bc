//! The gateway's lasting state beside events: pinned tools and approvals.
//!
//! Entries with a kind and a key, in the same database as the events. A command in another process, or another gateway,
//! may change them at any time; the thread of the database follows that.
//!
//! While the database is not available, the entries that were read last hold, and changes fail.

mod entry;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use self::entry::EntryRow;
pub use self::entry::{Entry, EntryChange, EntryKind, Expected};
pub(crate) use self::table::{StateClock, apply, clock, follow};
use crate::database::{Job, Queue, StoreError};

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

    /// Entries of one kind, with rising revisions, for tests.
    pub fn with_kind(kind: EntryKind, values: impl IntoIterator<Item = (String, String)>) -> Self {
        let rows = values.into_iter().zip(1..);
        let rows = rows.map(|((key, value), revision)| EntryRow {
            kind,
            key,
            value: Some(value.into()),
            revision,
        });
        let mut entries = Self::default();
        entries.add(rows.collect());
        entries
    }

    fn add(&mut self, rows: Vec<EntryRow>) {
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

/// The state of a running gateway. Reading it never waits.
pub struct StateStore {
    queue: Arc<Queue>,
    entries: watch::Receiver<Arc<Entries>>,
}

impl StateStore {
    pub(crate) fn new(queue: Arc<Queue>, entries: watch::Receiver<Arc<Entries>>) -> Self {
        Self { queue, entries }
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
        match self.queue.ask(job) {
            true => Ok(()),
            false => Err(StoreError::unavailable(
                "too many changes wait for the database",
            )),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
