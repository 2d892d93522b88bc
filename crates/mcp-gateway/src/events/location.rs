//! The location of the event store.

use std::path::PathBuf;

#[cfg(feature = "postgres")]
use super::postgres::{self, Postgres, PostgresConnection};
use super::sqlite::{self, Sqlite, SqliteDatabase};
use super::store::{OpenStore, Store, StoreError};

/// The location of the event store. Has no `Debug`: the URL of a database contains a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum StoreLocation {
    /// SQLite in a file, which is created if it is missing.
    File(PathBuf),
    /// SQLite in memory.
    Memory,
    /// PostgreSQL, shared by several gateways; `postgres://USER:PASSWORD@HOST/DATABASE`.
    #[cfg(feature = "postgres")]
    Postgres(String),
}

#[cfg(feature = "postgres")]
impl StoreLocation {
    /// Returns the location of a PostgreSQL database, if `address` is valid.
    pub(crate) fn postgres(address: &str) -> Option<Self> {
        postgres::is_address(address).then(|| Self::Postgres(address.to_owned()))
    }
}

/// An open database, in which the tables of the events are.
pub(crate) enum Database {
    Sqlite(SqliteDatabase),
    #[cfg(feature = "postgres")]
    Postgres(PostgresConnection),
}

impl StoreLocation {
    /// Opens the database. One in memory is a new one each time.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn connect(&self) -> Result<Database, StoreError> {
        Ok(match self {
            Self::File(path) => Database::Sqlite(SqliteDatabase::open(path)?),
            Self::Memory => Database::Sqlite(SqliteDatabase::in_memory()?),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => Database::Postgres(PostgresConnection::open(address)?),
        })
    }
}

impl OpenStore for StoreLocation {
    fn open(&self) -> Result<Box<dyn Store>, StoreError> {
        Ok(match self.connect()? {
            Database::Sqlite(database) => Box::new(Sqlite::new(database)?),
            #[cfg(feature = "postgres")]
            Database::Postgres(connection) => Box::new(Postgres::new(connection)),
        })
    }

    fn quarantine(&self) -> Result<(), StoreError> {
        match self {
            Self::File(path) => sqlite::quarantine(path),
            Self::Memory => Ok(()),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => Err(StoreError::unavailable(
                "the database reports that it is damaged",
            )),
        }
    }
}
