//! The queue between those that record events and the thread that writes them.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::event::Event;
use super::query::Query;
use super::record::Record;
use super::store::Failure;

/// Events that wait; more are dropped, and counted.
const MAX_WAITING: usize = 10_000;

/// Queries that wait; more are refused.
const MAX_QUERIES: usize = 64;

/// Events written at once.
pub(super) const BATCH: usize = 1_000;

/// How the log is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// Why nothing can be written at the moment; `None` while all is well.
    pub(crate) degraded: Option<String>,
    /// Events written since the start.
    pub(crate) written: u64,
    /// Events lost since the start.
    pub(crate) dropped: u64,
    /// Events that wait to be written.
    pub(crate) waiting: usize,
}

/// The queue.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    /// Something came that the writer should look at.
    wake: Condvar,
}

#[derive(Default)]
pub(super) struct QueueState {
    pub(super) events: VecDeque<Event>,
    pub(super) queries: Vec<PendingQuery>,
    pub(super) closing: bool,
    pub(super) health: Health,
}

/// A query, and where its answer goes.
pub(super) struct PendingQuery {
    pub(super) query: Query,
    pub(super) answer: oneshot::Sender<Result<Vec<Record>, Failure>>,
}

impl Queue {
    /// Adds an event; where there is no room, it is counted as dropped.
    pub(super) fn push(&self, event: Event) {
        let mut state = self.lock();
        if state.events.len() >= MAX_WAITING || state.closing {
            state.health.dropped += 1;
            return;
        }
        state.events.push_back(event);
        // The writer sleeps while there is nothing, and lets a few gather otherwise.
        let wake = matches!(state.events.len(), 1 | BATCH);
        drop(state);
        if wake {
            self.wake.notify_one();
        }
    }

    /// Adds a query. Returns false if there is no room.
    pub(super) fn ask(&self, query: PendingQuery) -> bool {
        let mut state = self.lock();
        if state.closing || state.queries.len() >= MAX_QUERIES {
            return false;
        }
        state.queries.push(query);
        drop(state);
        self.wake.notify_one();
        true
    }

    /// Tells the writer to write what is there, and to stop.
    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.wake.notify_one();
    }

    pub(super) fn health(&self) -> Health {
        let state = self.lock();
        Health {
            waiting: state.events.len(),
            ..state.health.clone()
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    /// Waits until `ready`, or for `limit`.
    pub(super) fn wait(&self, limit: Duration, ready: impl Fn(&QueueState) -> bool) {
        let mut state = self.lock();
        self.wake
            .wait_while_for(&mut state, |state| !ready(state), limit);
    }
}
