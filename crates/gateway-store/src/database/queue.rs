//! The queue between the callers and the thread of the database.

use std::collections::VecDeque;
use std::time::Duration;

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
    /// The number of events that were taken.
    taken: usize,
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
    /// Adds an event, or counts a denial like one that waits; with a full queue it is counted as dropped.
    pub(crate) fn push(&self, mut event: Event) {
        let mut state = self.lock();
        let QueueState {
            events,
            taken,
            denials,
            closing,
            health,
            ..
        } = &mut *state;
        // Counted from 1.
        let (first, place) = (*taken + 1, denials.place_of(&mut event));
        let equal = place.as_ref().and_then(|place| place.checked_sub(first));
        if let Some(waiting) = equal.and_then(|at| events.get_mut(at)) {
            waiting.count += 1;
            return;
        }
        if events.len() >= MAX_WAITING_EVENTS || *closing {
            health.dropped += 1;
            return;
        }
        if let Some(place) = place {
            *place = first + events.len();
        }
        events.push_back(event);
        // The thread sleeps while the queue is empty, and otherwise waits for more events.
        let wake = matches!(events.len(), 1 | MAX_BATCH_EVENTS);
        drop(state);
        if wake {
            self.wake.notify_one();
        }
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

    /// Takes the oldest events, at most `limit`. Also returns the number of events that were dropped so far.
    pub(crate) fn take(&self, limit: usize) -> (Vec<Event>, u64) {
        let mut state = self.lock();
        let number = limit.min(state.events.len());
        state.taken += number;
        (state.events.drain(..number).collect(), state.health.dropped)
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
