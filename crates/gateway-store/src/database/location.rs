//! The location of the database.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::connection::Connection;
use super::postgres::{self, PostgresConnection};
use super::sqlite::{self, SqliteConnection};
use super::{StoreError, StoreFault};

/// The location of the database. Has no `Debug`: the URL of a database contains a password.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreLocation {
    /// SQLite in a file, which is created if it is missing.
    File(PathBuf),
    /// SQLite in memory.
    Memory,
    /// PostgreSQL, shared by several gateways; `postgres://USER:PASSWORD@HOST/DATABASE`.
    Postgres(String),
}

impl StoreLocation {
    /// Parses `memory`, the URL of a PostgreSQL database, or a path below `folder`.
    ///
    /// # Errors
    /// A text that says which forms there are.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, &'static str> {
        match text.trim() {
            "" => Err("must be a file, `memory`, or postgres://USER:PASSWORD@HOST/DATABASE"),
            "memory" => Ok(Self::Memory),
            url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                match postgres::is_address(url) {
                    true => Ok(Self::Postgres(url.to_owned())),
                    false => Err("is not a valid URL of a database"),
                }
            }
            file => Ok(Self::File(folder.join(file))),
        }
    }

    /// Opens the database; in memory it is a new one.
    #[cfg(test)]
    pub(crate) fn connect(&self) -> Result<Connection, StoreError> {
        self.open(&new_name())
    }

    /// Opens the database, and creates it if it is missing. In memory it is the one with this name.
    pub(crate) fn open(&self, name: &str) -> Result<Connection, StoreError> {
        let opened = match self {
            Self::File(path) => SqliteConnection::open(path).map(Connection::Sqlite),
            Self::Memory => SqliteConnection::in_memory(name).map(Connection::Sqlite),
            Self::Postgres(address) => PostgresConnection::open(address).map(Connection::Postgres),
        };
        opened.map_err(|error| match error.fault {
            // No values were sent that could be rejected.
            StoreFault::Rejected => StoreError::unavailable(error.reason),
            _ => error,
        })
    }

    /// Moves a damaged database away, so that the next [`Self::open`] creates a new one.
    pub(crate) fn quarantine(&self) -> Result<(), StoreError> {
        match self {
            Self::File(path) => sqlite::quarantine(path),
            Self::Memory => Ok(()),
            Self::Postgres(_) => Err(StoreError::unavailable(
                "the database reports that it is damaged",
            )),
        }
    }
}

/// A name for a new database.
pub(crate) fn new_name() -> String {
    Uuid::new_v4().simple().to_string()
}
