//! A place for events, as the log sees it.

use std::time::Duration;

use upstream::time::Timestamp;

use super::query::Query;
use super::record::Record;

/// A place for events. All methods block, but none for more than a few seconds: they are called from
/// a thread that does nothing else. A store that failed is thrown away and opened again.
pub(crate) trait Store {
    /// Keeps all of `records`, or none.
    ///
    /// # Errors
    /// See [`Fault`] for what becomes of the records.
    fn append(&mut self, records: &[Record]) -> Result<(), Failure>;

    /// The newest events that match, in the order in which they happened.
    ///
    /// # Errors
    /// When they cannot be read.
    fn find(&mut self, query: &Query) -> Result<Vec<Record>, Failure>;

    /// Removes some of the oldest events that are too many, too old or too large; true when there
    /// may be more of them.
    ///
    /// # Errors
    /// When they cannot be removed.
    fn retain(&mut self, retention: &Retention, now: Timestamp) -> Result<bool, Failure>;
}

/// Opens a store, as often as it takes.
pub(crate) trait OpenStore: Send {
    fn open(&self) -> Result<Box<dyn Store>, Failure>;

    /// Puts aside what cannot be read any more, so that the next [`OpenStore::open`] starts anew.
    fn put_aside(&self) -> Result<(), Failure>;
}

/// How much is kept; what exceeds one of these is removed, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    /// For how long.
    pub(crate) age: Duration,
    /// How many events.
    pub(crate) rows: u64,
    /// Bytes on disk.
    pub(crate) bytes: u64,
}

/// Why a store did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What can be done about it.
    pub(crate) fault: Fault,
    /// The cause, for the operator. Holds no secret.
    pub(crate) reason: String,
}

/// What can be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Try again later: full, locked, read-only, not reachable.
    Unavailable,
    /// What is kept cannot be read any more: start anew.
    Corrupt,
    /// These records will never be taken.
    Rejected,
}

impl Failure {
    pub(super) fn unavailable(reason: impl Into<String>) -> Self {
        Self {
            fault: Fault::Unavailable,
            reason: reason.into(),
        }
    }
}
