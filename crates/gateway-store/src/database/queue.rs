//! The queue between the callers and the thread of the database.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::{Connection, StoreError};
use crate::events::{Denials, Event};
use crate::state::EntryChange;

/// Limit for waiting events; more are dropped and counted.
const MAX_WAITING_EVENTS: usize = 10_000;

/// Limit for waiting jobs; more are refused.
const MAX_WAITING_JOBS: usize = 1_000;

/// Limit for the events of one transaction.
pub(crate) const MAX_BATCH_EVENTS: usize = 1_000;

/// The state of the database, as far as the event log is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseHealth {
    /// The reason why nothing can be written now.
    pub degraded: Option<String>,
    /// The last time at which the database was replaced by a new one, and the reason.
    pub replaced: Option<String>,
    /// Events written since the start.
    pub written: u64,
    /// Events lost since the start.
    pub dropped: u64,
    /// Events that wait to be written.
    pub waiting: usize,
}

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// Wakes the thread.
    wake: Condvar,
}

#[derive(Default)]
pub(crate) struct QueueState {
    pub(crate) events: VecDeque<Event>,
    denials: Denials,
    pub(crate) jobs: Vec<Job>,
    pub(crate) closing: bool,
    pub(crate) health: DatabaseHealth,
}

/// Work for the thread, after all events that were recorded before.
pub(crate) enum Job {
    /// An answer once the events are written, or cannot be.
    Flush(oneshot::Sender<()>),
    /// Changes of the state, and the channel for their outcome.
    Change(
        Vec<EntryChange>,
        Option<oneshot::Sender<Result<bool, StoreError>>>,
    ),
    /// A query has found the database damaged.
    ReadFailed(StoreError),
    /// A question, which is dropped if the database cannot be used.
    Ask(Ask),
    /// A change that is made later if the database cannot be used, and the channel that is dropped once it is made, or has to
    /// wait.
    Store(Store, oneshot::Sender<()>),
}

/// A question to the database, which keeps its answer.
type Ask = Box<dyn FnOnce(&mut Connection) -> Result<(), StoreError> + Send>;

/// A change of the database, which is tried again after a failure.
pub(crate) type Store = Box<dyn FnMut(&mut Connection) -> Result<(), StoreError> + Send>;

impl Queue {
    /// Adds an event; with a full queue it is counted as dropped.
    pub(crate) fn push(&self, event: Event) {
        let mut state = self.lock();
        let Some(event) = state.denials.admit(event, Instant::now()) else {
            return;
        };
        if state.events.len() >= MAX_WAITING_EVENTS || state.closing {
            state.health.dropped += 1;
            return;
        }
        state.events.push_back(event);
        // The thread sleeps while the queue is empty, and otherwise waits for more events.
        let wake = matches!(state.events.len(), 1 | MAX_BATCH_EVENTS);
        drop(state);
        if wake {
            self.wake.notify_one();
        }
    }

    /// Adds the events of the denials that were counted: those whose minute is over, or all.
    pub(crate) fn add_counted(&self, all: bool) {
        let mut state = self.lock();
        let counted = state.denials.take(Instant::now(), all);
        state.events.extend(counted);
    }

    /// Adds a job. Returns false if too many wait.
    pub(crate) fn ask(&self, job: Job) -> bool {
        let mut state = self.lock();
        if state.closing || state.jobs.len() >= MAX_WAITING_JOBS {
            return false;
        }
        state.jobs.push(job);
        drop(state);
        self.wake.notify_one();
        true
    }

    /// Makes the thread do what waits and stop.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.wake.notify_one();
    }

    pub(crate) fn health(&self) -> DatabaseHealth {
        let state = self.lock();
        DatabaseHealth {
            waiting: state.events.len(),
            ..state.health.clone()
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    /// Waits until `ready` returns true, or for `limit`.
    pub(crate) fn wait(&self, limit: Duration, ready: impl Fn(&QueueState) -> bool) {
        let mut state = self.lock();
        self.wake
            .wait_while_for(&mut state, |state| !ready(state), limit);
    }
}
