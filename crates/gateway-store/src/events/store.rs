//! The interface of an event store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use upstream::time::Timestamp;

use super::event::{EventStatus, short};
use super::record::Record;
use super::trace::TraceId;

/// A store of events. Its methods block, but not for more than a few seconds; a thread of its own
/// calls them. After a failure the store is closed and opened again.
pub trait Store {
    /// Checks that events which are stored now can be found after a restart.
    ///
    /// # Errors
    /// [`StoreFault::Replaced`] if they cannot.
    fn verify(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

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

    /// Returns events after the position `after` and from the time `since` on, in microseconds, with their
    /// positions, which ascend.
    ///
    /// # Errors
    /// When they cannot be read.
    fn read(
        &mut self,
        after: i64,
        since: i64,
        limit: usize,
    ) -> Result<Vec<(i64, Record)>, StoreError>;

    /// Returns the latest time for which events were removed; `None` in a new store.
    ///
    /// # Errors
    /// When it cannot be read.
    fn clock(&mut self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    /// Removes some of the oldest events beyond the limits, and stores `now` for [`Store::clock`].
    /// Returns true if there may be more of them.
    ///
    /// # Errors
    /// When they cannot be removed.
    fn retain(&mut self, retention: &Retention, now: Timestamp) -> Result<bool, StoreError>;
}

/// Opens a store, also again after a failure.
pub trait OpenStore: Send {
    /// Opens the store, and creates it if it is missing.
    ///
    /// # Errors
    /// When it cannot be opened.
    fn open(&self) -> Result<Box<dyn Store>, StoreError>;

    /// Moves a damaged store away, so that the next [`OpenStore::open`] creates a new one.
    ///
    /// # Errors
    /// When it cannot be moved.
    fn quarantine(&self) -> Result<(), StoreError>;
}

/// The limits of a store. Beyond any of them the oldest events are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The age of the oldest event.
    pub age: Duration,
    /// The number of events.
    pub rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

impl Retention {
    /// Returns the number of oldest rows to remove from `rows` rows of `bytes` bytes, with this limit
    /// of bytes. Estimated by the average size of a row; the next round corrects it.
    pub(super) fn excess(&self, rows: u64, bytes: u64, max_bytes: u64) -> u64 {
        let too_many = rows.saturating_sub(self.rows);
        let too_large = match bytes.saturating_sub(max_bytes) {
            0 => 0,
            excess => 1 + rows.saturating_mul(excess) / bytes.max(1),
        };
        too_many.max(too_large.min(rows))
    }
}

/// The error of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    /// Its kind.
    pub fault: StoreFault,
    /// The cause, for the operator. Contains no secret.
    pub reason: String,
}

/// The kind of an error, which decides what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// Try again later: full, locked, read-only, not reachable.
    Unavailable,
    /// The store is damaged: move it away and create a new one.
    Corrupt,
    /// Another store is in its place: open that one.
    Replaced,
    /// The store will never accept these records.
    Rejected,
}

impl StoreError {
    /// An error after which the store is tried again later.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self {
            fault: StoreFault::Unavailable,
            reason: reason.into(),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for StoreError {}

/// The member of the metadata of requests with the types of their arguments, which have any names.
pub(super) const ARGUMENTS: &str = r#""arguments":"#;

/// Limit for the events of one query.
pub(super) const MAX_QUERY_LIMIT: usize = 10_000;

/// A query. A filter that is `None` matches all events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The id of one request.
    pub trace_id: Option<TraceId>,
    /// The exact type.
    pub event_type: Option<String>,
    /// The exact status.
    pub status: Option<EventStatus>,
    /// Only requests of the token with this name.
    pub principal: Option<Arc<str>>,
    /// Only requests of the view with this name.
    pub view: Option<Arc<str>>,
    /// Only events of the gateway with this id, where several share the store.
    pub replica: Option<String>,
    /// The earliest time.
    pub since: Option<Timestamp>,
    /// Number of events: the newest ones that match. Never more than 10,000.
    pub limit: usize,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            trace_id: None,
            event_type: None,
            status: None,
            principal: None,
            view: None,
            replica: None,
            since: None,
            limit: 100,
        }
    }
}

impl Query {
    /// A part of the metadata that only requests of `principal` have: quotes in a text are escaped there. It is before
    /// [`ARGUMENTS`].
    pub(super) fn principal_member(&self) -> Option<String> {
        let name = self.principal.as_deref()?;
        Some(format!(r#""principal":{}"#, serde_json::json!(short(name))))
    }

    /// The same of its view.
    pub(super) fn view_member(&self) -> Option<String> {
        let name = self.view.as_deref()?;
        Some(format!(r#""view":{}"#, serde_json::json!(name)))
    }

    pub(super) fn limit(&self) -> usize {
        self.limit.min(MAX_QUERY_LIMIT)
    }
}
