//! The way into the log, and the way to ask it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::oneshot;

use super::event::Event;
use super::query::Query;
use super::record::Record;
use super::store::{Failure, Place, Retention, Store};
use super::writer::{self, Writer};

/// Events that wait; more are dropped, and counted.
pub(super) const MAX_WAITING: usize = 10_000;

/// Queries that wait; more are refused.
const MAX_ASKING: usize = 64;

/// What a query may take, waiting included.
const ANSWER: Duration = Duration::from_secs(5);

/// The event log. All that a call meets of it is one push into a queue.
pub struct Log {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How the log is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why nothing can be written at the moment; `None` while all is well.
    pub degraded: Option<String>,
    /// Events written since the start.
    pub written: u64,
    /// Events lost since the start.
    pub dropped: u64,
    /// Events that wait to be written.
    pub waiting: usize,
}

/// What the two sides share.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Something came that the writer should look at.
    wake: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) waiting: VecDeque<Event>,
    pub(super) asking: Vec<Ask>,
    pub(super) closing: bool,
    pub(super) health: Health,
}

/// A query, and where its answer goes.
pub(super) struct Ask {
    pub(super) query: Query,
    pub(super) answer: oneshot::Sender<Result<Vec<Record>, Failure>>,
}

impl Log {
    /// Starts the log. The store is opened by the log's own thread, as often as it takes.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(place: Place, retention: Retention) -> std::io::Result<Self> {
        let aside = place.clone();
        let open = move || place.open();
        let put_aside = move || aside.put_aside();
        Self::with(open, put_aside, retention)
    }

    /// Starts the log with something else than a place.
    pub(super) fn with(
        open: impl FnMut() -> Result<Box<dyn Store>, Failure> + Send + 'static,
        put_aside: impl FnMut() -> Result<(), Failure> + Send + 'static,
        retention: Retention,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let run = move || Writer::new(theirs, open, put_aside, retention).run();
        let thread = thread::Builder::new().name("events".into()).spawn(run)?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Records an event. Never waits and never fails: where the queue is full, the event is counted
    /// as dropped.
    pub fn record(&self, event: Event) {
        let mut state = self.shared.lock();
        if state.waiting.len() >= MAX_WAITING || state.closing {
            state.health.dropped += 1;
            return;
        }
        state.waiting.push_back(event);
        // The writer sleeps while there is nothing, and lets a few gather otherwise.
        let wake = matches!(state.waiting.len(), 1 | writer::BATCH);
        drop(state);
        if wake {
            self.shared.wake.notify_one();
        }
    }

    /// The newest events that match, in the order in which they happened; those recorded before this
    /// call are among them.
    ///
    /// # Errors
    /// When the store cannot be read, or not within 5 s.
    pub async fn find(&self, query: Query) -> Result<Vec<Record>, Failure> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.shared.lock();
            if state.closing || state.asking.len() >= MAX_ASKING {
                return Err(Failure::unavailable("the event log is busy"));
            }
            state.asking.push(Ask { query, answer });
        }
        self.shared.wake.notify_one();
        match tokio::time::timeout(ANSWER, answered).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) => Err(Failure::unavailable("the event log has stopped")),
            Err(_) => Err(Failure::unavailable("the event log did not answer in time")),
        }
    }

    /// How it is doing.
    pub fn health(&self) -> Health {
        let state = self.shared.lock();
        Health {
            waiting: state.waiting.len(),
            ..state.health.clone()
        }
    }

    /// Writes what waits, once, and stops. Blocks for as long as that takes, which is a few seconds
    /// at most.
    pub fn close(&self) {
        self.shared.lock().closing = true;
        self.shared.wake.notify_one();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the event log ended in a panic");
        }
    }
}

impl Drop for Log {
    /// Tells the thread to stop, without waiting for it.
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.wake.notify_one();
    }
}

impl Shared {
    /// A panic in between leaves a queue and counters, which are as good as before.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready`, or for `limit`.
    pub(super) fn wait(
        &self,
        limit: Duration,
        ready: impl Fn(&State) -> bool,
    ) -> MutexGuard<'_, State> {
        let waited = self
            .wake
            .wait_timeout_while(self.lock(), limit, |state| !ready(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
