//! The thread that answers queries, with a connection that only reads.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::queue::{Job, PendingQuery, Queue};
use super::{Connection, StoreError, StoreFault, StoreLocation};
use crate::events::{Query, Record, find};

pub(super) struct QueryReader {
    pub(super) location: StoreLocation,
    /// That of the database, if it is in memory.
    pub(super) name: String,
    pub(super) queue: Arc<Queue>,
    pub(super) queries: Receiver<PendingQuery>,
    pub(super) connection: Option<Connection>,
}

impl QueryReader {
    /// Answers queries until the thread that writes ends.
    pub(super) fn run(mut self) {
        while let Ok(pending) = self.queries.recv() {
            if pending.answer.is_closed() {
                continue;
            }
            let was_open = self.connection.is_some();
            let mut found = self.find(&pending.query);
            // An open connection may have ended since the query before.
            if was_open && matches!(&found, Err(error) if error.fault != StoreFault::Corrupt) {
                found = self.find(&pending.query);
            }
            if let Err(error) = &found
                && error.fault == StoreFault::Corrupt
            {
                self.queue.ask(Job::ReadFailed(error.clone()));
            }
            // An error means that the caller does not wait any more.
            let _ = pending.answer.send(found);
        }
    }

    fn find(&mut self, query: &Query) -> Result<Vec<Record>, StoreError> {
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
