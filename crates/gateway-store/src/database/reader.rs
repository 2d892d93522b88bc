//! The connection that only reads.

use super::{Connection, StoreError, StoreFault, StoreLocation};
use crate::events::{Query, Record, find};

pub(crate) struct QueryReader {
    location: StoreLocation,
    /// That of the database, if it is in memory.
    name: String,
    connection: Option<Connection>,
}

impl QueryReader {
    pub(super) fn new(location: StoreLocation, name: String) -> Self {
        let connection = None;
        Self {
            location,
            name,
            connection,
        }
    }

    /// Returns the newest events that match, oldest first. Blocks.
    pub(crate) fn find(&mut self, query: &Query) -> Result<Vec<Record>, StoreError> {
        let was_open = self.connection.is_some();
        let found = self.try_find(query);
        // An open connection may have ended since the query before.
        match &found {
            Err(error) if was_open && error.fault != StoreFault::Corrupt => self.try_find(query),
            _ => found,
        }
    }

    fn try_find(&mut self, query: &Query) -> Result<Vec<Record>, StoreError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(self.location.open(&self.name)?),
        };
        let found = connection.verify().and_then(|()| find(connection, query));
        if found.is_err() {
            self.connection = None;
        }
        found
    }
}
