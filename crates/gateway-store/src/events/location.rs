//! The location of the event store.

use std::path::{Path, PathBuf};

use super::postgres::{self, Postgres, PostgresConnection};
use super::sqlite::{self, Sqlite, SqliteDatabase};
use super::store::{OpenStore, Store, StoreError};

/// The location of the event store. Has no `Debug`: the URL of a database contains a password.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreLocation {
    /// SQLite in a file, which is created if it is missing.
    File(PathBuf),
    /// SQLite in memory.
    Memory,
    /// PostgreSQL, shared by several gateways; `postgres://USER:PASSWORD@HOST/DATABASE`.
    Postgres(String),
}

/// An open database, in which the tables of the events are.
pub(crate) enum Database {
    Sqlite(SqliteDatabase),
    Postgres(PostgresConnection),
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
            url if is_postgres(url) => match postgres::is_address(url) {
                true => Ok(Self::Postgres(url.to_owned())),
                false => Err("is not a valid URL of a database"),
            },
            file => Ok(Self::File(folder.join(file))),
        }
    }

    /// Opens the database. One in memory is a new one each time.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn connect(&self) -> Result<Database, StoreError> {
        Ok(match self {
            Self::File(path) => Database::Sqlite(SqliteDatabase::open(path)?),
            Self::Memory => Database::Sqlite(SqliteDatabase::in_memory()?),
            Self::Postgres(address) => Database::Postgres(PostgresConnection::open(address)?),
        })
    }
}

fn is_postgres(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

impl OpenStore for StoreLocation {
    fn open(&self) -> Result<Box<dyn Store>, StoreError> {
        Ok(match self.connect()? {
            Database::Sqlite(database) => Box::new(Sqlite::new(database)?),
            Database::Postgres(connection) => Box::new(Postgres::new(connection)),
        })
    }

    fn quarantine(&self) -> Result<(), StoreError> {
        match self {
            Self::File(path) => sqlite::quarantine(path),
            Self::Memory => Ok(()),
            Self::Postgres(_) => Err(StoreError::unavailable(
                "the database reports that it is damaged",
            )),
        }
    }
}
