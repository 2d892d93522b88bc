//! The queue between the callers of the log and the thread that writes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::denials::Denials;
use super::event::Event;
use super::record::Record;
use super::store::{Query, StoreError};

/// Limit for waiting events; more are dropped and counted.
const MAX_WAITING_EVENTS: usize = 10_000;

/// Limit for waiting queries; more are rejected.
const MAX_WAITING_QUERIES: usize = 64;

/// Limit for the events of one transaction.
pub(super) const MAX_BATCH_EVENTS: usize = 1_000;

/// The state of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHealth {
    /// The reason why events cannot be written now.
    pub degraded: Option<String>,
    /// The last time at which the store was replaced by a new one, and the reason.
    pub replaced: Option<String>,
    /// Events written since the start.
    pub written: u64,
    /// Events lost since the start.
    pub dropped: u64,
    /// Events that wait to be written.
    pub waiting: usize,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    /// Wakes the writer.
    wake: Condvar,
}

#[derive(Default)]
pub(super) struct QueueState {
    pub(super) events: VecDeque<Event>,
    denials: Denials,
    pub(super) queries: Vec<PendingQuery>,
    pub(super) closing: bool,
    pub(super) health: LogHealth,
}

/// A query, and the channel for its answer.
pub(super) struct PendingQuery {
    pub(super) query: Query,
    pub(super) answer: oneshot::Sender<Result<Vec<Record>, StoreError>>,
}

impl Queue {
    /// Adds an event; with a full queue it is counted as dropped.
    pub(super) fn push(&self, event: Event) {
        let mut state = self.lock();
        let Some(event) = state.denials.admit(event, Instant::now()) else {
            return;
        };
        if state.events.len() >= MAX_WAITING_EVENTS || state.closing {
            state.health.dropped += 1;
            return;
        }
        state.events.push_back(event);
        // The writer sleeps while the queue is empty, and otherwise waits for more events.
        let wake = matches!(state.events.len(), 1 | MAX_BATCH_EVENTS);
        drop(state);
        if wake {
            self.wake.notify_one();
        }
    }

    /// Adds the events of the denials that were counted: those whose minute is over, or all.
    pub(super) fn add_counted(&self, all: bool) {
        let mut state = self.lock();
        let counted = state.denials.take(Instant::now(), all);
        state.events.extend(counted);
    }

    /// Adds a query. Returns false if the queue is full.
    pub(super) fn ask(&self, query: PendingQuery) -> bool {
        let mut state = self.lock();
        if state.closing || state.queries.len() >= MAX_WAITING_QUERIES {
            return false;
        }
        state.queries.push(query);
        drop(state);
        self.wake.notify_one();
        true
    }

    /// Makes the writer write the waiting events and stop.
    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.wake.notify_one();
    }

    pub(super) fn health(&self) -> LogHealth {
        let state = self.lock();
        LogHealth {
            waiting: state.events.len(),
            ..state.health.clone()
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    /// Waits until `ready` returns true, or for `limit`.
    pub(super) fn wait(&self, limit: Duration, ready: impl Fn(&QueueState) -> bool) {
        let mut state = self.lock();
        self.wake
            .wait_while_for(&mut state, |state| !ready(state), limit);
    }
}
