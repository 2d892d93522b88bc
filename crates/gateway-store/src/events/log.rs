//! The event log: records events and answers queries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcp_core::server::DeniedBy;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::argument_types::{ArgumentTypes, KnownArguments, RecordedArguments};
use super::event::Event;
use super::record::Record;
use super::table::{EventReader, Query};
use crate::database::{DatabaseHealth, Job, Queue, StoreError, StoreFault};

/// Timeout of a query, with the time in the queue: longer than two waits for the lock of another process.
const QUERY_TIMEOUT: Duration = Duration::from_secs(20);

/// The event log. For a call, recording is one push into a queue.
pub struct EventLog {
    queue: Arc<Queue>,
    /// Answers one query after the other.
    reader: Arc<tokio::sync::Mutex<EventReader>>,
    /// The number of requests of each view.
    views: Mutex<BTreeMap<Arc<str>, u64>>,
    /// The numbers of requests that were denied, in the order of [`DeniedBy::ALL`].
    denied: [AtomicU64; DeniedBy::ALL.len()],
    /// The arguments whose values are recorded.
    recorded: Mutex<Arc<RecordedArguments>>,
}

impl EventLog {
    pub(crate) fn new(queue: Arc<Queue>, reader: EventReader) -> Self {
        Self {
            queue,
            reader: Arc::new(reader.into()),
            views: Mutex::default(),
            denied: Default::default(),
            recorded: Mutex::new(Arc::new(|_, _| false)),
        }
    }

    /// Records an event. Never waits and never fails: with a full queue the event is dropped and
    /// counted.
    pub fn record(&self, event: Event) {
        let request = event.request();
        if let Some(view) = request.and_then(|request| request.view.as_ref()) {
            *self.views.lock().entry(Arc::clone(view)).or_default() += 1;
        }
        if let Some(by) = request.and_then(|request| request.denied_by) {
            self.denied[by as usize].fetch_add(1, Ordering::Relaxed);
        }
        self.queue.push(event);
    }

    /// Sets the arguments whose values are recorded from now on.
    pub fn set_recorded(&self, recorded: Arc<RecordedArguments>) {
        *self.recorded.lock() = recorded;
    }

    /// The arguments of a call as its event has them; `tool` is the published name.
    pub fn arguments(
        &self,
        tool: &str,
        arguments: &RawValue,
        known: &KnownArguments,
    ) -> ArgumentTypes {
        let is_recorded = Arc::clone(&self.recorded.lock());
        ArgumentTypes::new(arguments, known, |name| is_recorded(tool, name))
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
    /// When the database cannot be read within 20 s.
    pub async fn find(&self, query: Query) -> Result<Vec<Record>, StoreError> {
        let found = tokio::time::timeout(QUERY_TIMEOUT, self.find_written(query)).await;
        let late = || StoreError::unavailable("the event log did not answer in time");
        let found = found.unwrap_or_else(|_| Err(late()));
        if let Err(error) = &found
            && error.fault == StoreFault::Corrupt
        {
            self.queue.ask(Job::ReadFailed(error.clone()));
        }
        found
    }

    async fn find_written(&self, query: Query) -> Result<Vec<Record>, StoreError> {
        let (answer, written) = oneshot::channel();
        let is_asked = self.queue.ask(Job::Flush(answer));
        if !is_asked || written.await.is_err() {
            let text = "the event log is busy, or has stopped";
            return Err(StoreError::unavailable(text));
        }
        let mut reader = Arc::clone(&self.reader).lock_owned().await;
        let found = tokio::task::spawn_blocking(move || reader.find(&query)).await;
        found.map_err(|error| StoreError::unavailable(error.to_string()))?
    }

    /// Returns the state of the log, for its operator.
    pub fn health(&self) -> DatabaseHealth {
        self.queue.health()
    }
}
