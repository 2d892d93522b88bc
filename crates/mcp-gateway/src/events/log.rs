//! The way into the log, and the way to ask it.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::event::Event;
use super::query::Query;
use super::queue::{Health, PendingQuery, Queue};
use super::record::Record;
use super::store::{Failure, OpenStore, Retention};
use super::writer::Writer;

/// What a query may take, waiting included.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The event log. All that a call meets of it is one push into a queue.
pub(crate) struct Log {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    /// Starts the log. The store is opened by the log's own thread, as often as it takes.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn start(
        location: impl OpenStore + 'static,
        retention: Retention,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let theirs = Arc::clone(&queue);
        let run = move || Writer::new(theirs, location, retention).run();
        let thread = thread::Builder::new().name("events".into()).spawn(run)?;
        Ok(Self {
            queue,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Records an event. Never waits and never fails: where the queue is full, the event is counted
    /// as dropped.
    pub(crate) fn record(&self, event: Event) {
        self.queue.push(event);
    }

    /// The newest events that match, in the order in which they happened; those recorded before this
    /// call are among them.
    ///
    /// # Errors
    /// When the store cannot be read, or not within 5 s.
    pub(crate) async fn find(&self, query: Query) -> Result<Vec<Record>, Failure> {
        let (answer, answered) = oneshot::channel();
        if !self.queue.ask(PendingQuery { query, answer }) {
            return Err(Failure::unavailable("the event log is busy"));
        }
        match tokio::time::timeout(QUERY_TIMEOUT, answered).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) => Err(Failure::unavailable("the event log has stopped")),
            Err(_) => Err(Failure::unavailable("the event log did not answer in time")),
        }
    }

    /// How it is doing.
    pub(crate) fn health(&self) -> Health {
        self.queue.health()
    }

    /// Writes what waits, once, and stops. Blocks for as long as that takes, which is a few seconds
    /// at most.
    pub(crate) fn close(&self) {
        self.queue.close();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the event log ended in a panic");
        }
    }
}

impl Drop for Log {
    /// Tells the thread to stop, without waiting for it.
    fn drop(&mut self) {
        self.queue.close();
    }
}
