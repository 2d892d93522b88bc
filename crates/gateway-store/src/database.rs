//! The database of a gateway: one thread with one connection, for the event log, for the state, and for what several
//! gateways share.
//!
//! * [`location`]: where it is.
//! * [`connection`]: the connection, to SQLite or to PostgreSQL; [`schema`] has the tables of both.
//! * [`queue`]: what waits for the thread; no call waits for a database.
//! * [`actor`]: the thread. It writes events in batches, makes changes of the state and follows those of others,
//!   answers for sessions and tasks, removes old events, and opens the database again after a failure.
//!
//! A failing database does not affect calls: events wait in a bounded queue, more events are counted and dropped,
//! the entries of the state that were read last hold, and writing is tried again with a backoff.

mod actor;
mod connection;
mod location;
mod postgres;
mod queue;
mod schema;
mod sqlite;
mod tls;

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tokio::sync::watch;

use self::actor::Actor;
pub(crate) use self::connection::{Connection, Row, Value};
pub use self::location::StoreLocation;
pub use self::queue::DatabaseHealth;
pub(crate) use self::queue::{Job, Queue};
use crate::events::{EventLog, EventReader, Retention};
use crate::shared::SharedTables;
use crate::state::StateStore;

/// The open database of a running gateway.
pub struct Database {
    /// The event log.
    pub log: Arc<EventLog>,
    /// The state.
    pub state: Arc<StateStore>,
    /// Sessions and tasks of the gateways on it; `None` for a database of one gateway, and for a command.
    pub shared: Option<Arc<SharedTables>>,
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Database {
    /// Starts the thread of the database, which opens it and tries again if that fails. `process` is the number of a
    /// gateway, which shares its sessions and tasks with the others on the database; `None` for a command.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(
        location: StoreLocation,
        retention: Retention,
        process: Option<u32>,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let process = process.filter(|_| matches!(location, StoreLocation::Postgres(_)));
        let shared = process.map(|process| SharedTables::new(process, Arc::clone(&queue)));
        let (shared, follower) = shared.unzip();
        let name = location::new_name();
        let (entries, followed) = watch::channel(Arc::default());
        let reader = EventReader::new(location.clone(), name.clone());
        let actor = Actor::new(
            location,
            name,
            Arc::clone(&queue),
            retention,
            entries,
            follower,
        );
        let actor = thread::Builder::new()
            .name("database".into())
            .spawn(move || actor.run())?;
        Ok(Self {
            log: Arc::new(EventLog::new(Arc::clone(&queue), reader)),
            state: Arc::new(StateStore::new(Arc::clone(&queue), followed)),
            shared,
            queue,
            thread: Mutex::new(Some(actor)),
        })
    }

    /// Makes the changes that wait, tries once to write the events, and stops the thread. Blocks for a few seconds at
    /// most.
    pub fn close(&self) {
        self.queue.close();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the database has panicked");
        }
    }
}

impl Drop for Database {
    /// Stops the thread without waiting for it.
    fn drop(&mut self) {
        self.queue.close();
    }
}

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
