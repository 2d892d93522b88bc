//! The connection to a database, and the queue of the thread that has it.
//!
//! * [`location`]: where it is.
//! * [`connection`]: the connection, to SQLite or to PostgreSQL; [`schema`] has the tables of both.
//! * [`queue`]: what waits for the [thread](crate::actor); no call waits for a database.

mod connection;
mod location;
mod postgres;
mod queue;
mod schema;
mod sqlite;
mod tls;

use std::fmt;

pub(crate) use self::connection::{Connection, Row, Value};
pub use self::location::StoreLocation;
pub(crate) use self::location::new_name;
pub use self::queue::DatabaseHealth;
pub(crate) use self::queue::{Job, MAX_BATCH_EVENTS, Queue, QueueState, Store};

/// The error of a database.
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
    /// The database is damaged: move it away and create a new one.
    Corrupt,
    /// Another database is in its place: open that one.
    Replaced,
    /// The database will never accept these values.
    Rejected,
}

impl StoreError {
    /// An error after which the database is tried again later.
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
