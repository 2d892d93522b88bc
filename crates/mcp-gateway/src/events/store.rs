//! Where events are kept.

use std::path::PathBuf;
use std::time::Duration;

use super::query::Query;
use super::record::Record;
use super::sqlite::Sqlite;
use super::time::Timestamp;

/// A place for events. All methods block, but none for more than a few seconds: they are called from
/// a thread that does nothing else. A store that failed is thrown away and opened again.
pub trait Store {
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

/// How much is kept; what exceeds one of these is removed, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// For how long.
    pub age: Duration,
    /// How many events.
    pub rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// Why a store did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What can be done about it.
    pub fault: Fault,
    /// The cause, for the operator. Holds no secret.
    pub reason: String,
}

/// What can be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
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

/// Which store. Has no `Debug`: the address of a database holds a password.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// SQLite, in a file that is created where it is missing.
    File(PathBuf),
    /// SQLite, gone with the process.
    Memory,
    /// PostgreSQL, shared by several gateways; `postgres://USER:PASSWORD@HOST/DATABASE`.
    #[cfg(feature = "postgres")]
    Postgres(String),
}

impl Place {
    /// PostgreSQL at this address, if it is one.
    #[cfg(feature = "postgres")]
    pub(crate) fn postgres(address: &str) -> Option<Self> {
        super::postgres::is_address(address).then(|| Self::Postgres(address.to_owned()))
    }

    pub(super) fn open(&self) -> Result<Box<dyn Store>, Failure> {
        Ok(match self {
            Self::File(path) => Box::new(Sqlite::open(path)?),
            Self::Memory => Box::new(Sqlite::in_memory()?),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => Box::new(super::postgres::Postgres::open(address)?),
        })
    }

    /// Puts aside what cannot be read any more, so that the next [`Place::open`] starts anew.
    pub(super) fn put_aside(&self) -> Result<(), Failure> {
        match self {
            Self::File(path) => super::sqlite::put_aside(path),
            Self::Memory => Ok(()),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => Err(Failure::unavailable("the database says that it is damaged")),
        }
    }
}
