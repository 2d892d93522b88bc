//! The event log: records events and answers queries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mcp_core::server::DeniedBy;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::argument_types::{ArgumentTypes, KnownArguments, RecordedArguments};
use super::event::Event;
use super::queue::{LogHealth, PendingQuery, Queue};
use super::record::Record;
use super::store::{OpenStore, Query, Retention, StoreError};
use super::writer::Writer;

/// Timeout of a query, with the time in the queue.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The event log. For a call, recording is one push into a queue.
pub struct EventLog {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The number of requests of each view.
    views: Mutex<BTreeMap<Arc<str>, u64>>,
    /// The numbers of requests that were denied, in the order of [`DeniedBy::ALL`].
    denied: [AtomicU64; DeniedBy::ALL.len()],
    /// The arguments whose values are recorded; `None` by default.
    recorded: Mutex<Option<Arc<RecordedArguments>>>,
}

impl EventLog {
    /// Starts the thread of the log, which opens the store and tries again if that fails.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(
        location: impl OpenStore + 'static,
        retention: Retention,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let shared = Arc::clone(&queue);
        let run = move || Writer::new(shared, location, retention).run();
        let thread = thread::Builder::new().name("events".into()).spawn(run)?;
        Ok(Self {
            queue,
            thread: Mutex::new(Some(thread)),
            views: Mutex::default(),
            denied: Default::default(),
            recorded: Mutex::default(),
        })
    }

    /// Records an event. Never waits and never fails: with a full queue the event is dropped and
    /// counted.
    pub fn record(&self, event: Event) {
        if let Some(view) = event.view() {
            *self.views.lock().entry(Arc::clone(view)).or_default() += 1;
        }
        if let Some(by) = event.denied_by() {
            self.denied[by as usize].fetch_add(1, Ordering::Relaxed);
        }
        self.queue.push(event);
    }

    /// Sets the arguments whose values are recorded from now on.
    pub fn set_recorded(&self, recorded: Option<Arc<RecordedArguments>>) {
        *self.recorded.lock() = recorded;
    }

    /// The arguments of a call as its event has them; `tool` is the published name.
    pub fn arguments(
        &self,
        tool: &str,
        arguments: &RawValue,
        known: &KnownArguments,
    ) -> ArgumentTypes {
        let recorded = self.recorded.lock().clone();
        match recorded {
            None => ArgumentTypes::new(arguments, known),
            Some(is_recorded) => {
                ArgumentTypes::with_values(arguments, known, |name| is_recorded(tool, name))
            }
        }
    }

    /// The number of requests that were recorded of each view.
    pub fn requests_of_views(&self) -> BTreeMap<Arc<str>, u64> {
        self.views.lock().clone()
    }

    /// The number of requests that were recorded as denied by this.
    pub fn denied(&self, by: DeniedBy) -> u64 {
        self.denied[by as usize].load(Ordering::Relaxed)
    }

    /// Returns the newest events that match, oldest first. All events that were recorded before this
    /// call are found.
    ///
    /// # Errors
    /// When the store cannot be read within 5 s.
    pub async fn find(&self, query: Query) -> Result<Vec<Record>, StoreError> {
        let (answer, answered) = oneshot::channel();
        if !self.queue.ask(PendingQuery { query, answer }) {
            return Err(StoreError::unavailable("the event log is busy"));
        }
        match tokio::time::timeout(QUERY_TIMEOUT, answered).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) => Err(StoreError::unavailable("the event log has stopped")),
            Err(_) => Err(StoreError::unavailable(
                "the event log did not answer in time",
            )),
        }
    }

    /// Returns the state of the log, for its operator.
    pub fn health(&self) -> LogHealth {
        self.queue.health()
    }

    /// Tries once to write the queue, and stops the thread. Blocks for a few seconds at most.
    pub fn close(&self) {
        self.queue.close();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the event log has panicked");
        }
    }
}

impl Drop for EventLog {
    /// Stops the thread without waiting for it.
    fn drop(&mut self) {
        self.queue.close();
    }
}
