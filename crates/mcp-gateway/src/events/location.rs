//! Where events are kept.

use std::path::PathBuf;

#[cfg(feature = "postgres")]
use super::postgres::{self, Postgres};
use super::sqlite::{self, Sqlite};
use super::store::{Failure, OpenStore, Store};

/// Where events are kept. Has no `Debug`: the address of a database holds a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum StoreLocation {
    /// SQLite, in a file that is created where it is missing.
    File(PathBuf),
    /// SQLite, gone with the process.
    Memory,
    /// PostgreSQL, shared by several gateways; `postgres://USER:PASSWORD@HOST/DATABASE`.
    #[cfg(feature = "postgres")]
    Postgres(String),
}

#[cfg(feature = "postgres")]
impl StoreLocation {
    /// PostgreSQL at this address, if it is one.
    pub(crate) fn postgres(address: &str) -> Option<Self> {
        postgres::is_address(address).then(|| Self::Postgres(address.to_owned()))
    }
}

impl OpenStore for StoreLocation {
    fn open(&self) -> Result<Box<dyn Store>, Failure> {
        Ok(match self {
            Self::File(path) => Box::new(Sqlite::open(path)?),
            Self::Memory => Box::new(Sqlite::in_memory()?),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => Box::new(Postgres::open(address)?),
        })
    }

    fn put_aside(&self) -> Result<(), Failure> {
        match self {
            Self::File(path) => sqlite::put_aside(path),
            Self::Memory => Ok(()),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => Err(Failure::unavailable("the database says that it is damaged")),
        }
    }
}
