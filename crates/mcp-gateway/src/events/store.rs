//! The interface of an event store.

use std::time::Duration;

use upstream::time::Timestamp;

use super::query::Query;
use super::record::Record;

/// A store of events. Its methods block, but not for more than a few seconds; a thread of its own
/// calls them. After a failure the store is closed and opened again.
pub(crate) trait Store {
    /// Stores all of `records`, or none.
    ///
    /// # Errors
    /// [`StoreFault`] says whether the records can be tried again.
    fn append(&mut self, records: &[Record]) -> Result<(), StoreError>;

    /// Returns the newest events that match, oldest first.
    ///
    /// # Errors
    /// When they cannot be read.
    fn find(&mut self, query: &Query) -> Result<Vec<Record>, StoreError>;

    /// Removes some of the oldest events beyond the limits. Returns true if there may be more of them.
    ///
    /// # Errors
    /// When they cannot be removed.
    fn retain(&mut self, retention: &Retention, now: Timestamp) -> Result<bool, StoreError>;
}

/// Opens a store, also again after a failure.
pub(crate) trait OpenStore: Send {
    fn open(&self) -> Result<Box<dyn Store>, StoreError>;

    /// Moves a damaged store away, so that the next [`OpenStore::open`] creates a new one.
    fn quarantine(&self) -> Result<(), StoreError>;
}

/// The limits of a store. Beyond any of them the oldest events are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    pub(crate) age: Duration,
    pub(crate) rows: u64,
    /// Bytes on disk.
    pub(crate) bytes: u64,
}

/// The error of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreError {
    pub(crate) fault: StoreFault,
    /// The cause, for the operator. Contains no secret.
    pub(crate) reason: String,
}

/// The kind of an error, which decides what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreFault {
    /// Try again later: full, locked, read-only, not reachable.
    Unavailable,
    /// The store is damaged: move it away and create a new one.
    Corrupt,
    /// The store will never accept these records.
    Rejected,
}

impl StoreError {
    pub(super) fn unavailable(reason: impl Into<String>) -> Self {
        Self {
            fault: StoreFault::Unavailable,
            reason: reason.into(),
        }
    }
}
