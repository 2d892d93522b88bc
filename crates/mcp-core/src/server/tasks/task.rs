//! The state of a task, which its work, polls and subscribers share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::outcome::TaskOutcome;
use crate::clock::Clock;
use crate::error::truncated;
use crate::server::Caller;

/// A call that continues after its request was answered.
pub(in crate::server) struct Task {
    /// Begins with 128 random bits: without an owner, every caller who knows the id may use the task.
    pub(super) id: String,
    /// The only caller that may see it.
    pub(super) owner: Option<Arc<str>>,
    /// The only view in which it is there; `None` for the server itself.
    pub(super) view: Option<Arc<str>>,
    /// True if another process runs it, and this one knows what the store says.
    pub(super) is_elsewhere: bool,
    /// Creation time, since 1970.
    pub(super) created: Duration,
    /// Lifetime in milliseconds, from its creation.
    ttl: AtomicU64,
    /// Cancels the work.
    pub(super) stop: CancellationToken,
    /// Cancelled when the server stops.
    pub(super) closing: CancellationToken,
    /// Cancelled when the task is no longer stored.
    pub(super) removed: CancellationToken,
    /// The work asks to answer its request with the task.
    detach_request: Notify,
    /// Cancelled when the request was answered with the task.
    detached: CancellationToken,
    clock: Arc<dyn Clock>,
    state: watch::Sender<TaskState>,
}

pub(super) struct TaskState {
    /// The last status message of the work.
    pub(super) message: Option<String>,
    /// Time of the last change, since 1970.
    pub(super) updated: Duration,
    /// Open questions to the client, by key.
    pub(super) questions: Map<String, Value>,
    /// The client's answers, or the reasons for missing ones.
    pub(super) answers: HashMap<String, Result<Value, String>>,
    pub(super) outcome: Option<TaskOutcome>,
}

fn as_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Task {
    /// A task of `caller` with the answers of earlier rounds.
    pub(super) fn new(
        id: String,
        caller: &Caller,
        ttl: Duration,
        answers: &Map<String, Value>,
        closing: &CancellationToken,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let created = clock.unix_time();
        let answers = answers.iter();
        let answers = answers.map(|(key, answer)| (key.clone(), Ok(answer.clone())));
        let state = TaskState {
            message: None,
            updated: created,
            questions: Map::new(),
            answers: answers.collect(),
            outcome: None,
        };
        Self {
            id,
            owner: caller.name().cloned(),
            view: caller.view().cloned(),
            is_elsewhere: false,
            created,
            ttl: AtomicU64::new(as_millis(ttl)),
            stop: CancellationToken::new(),
            closing: closing.clone(),
            removed: CancellationToken::new(),
            detach_request: Notify::new(),
            detached: CancellationToken::new(),
            clock,
            state: watch::Sender::new(state),
        }
    }

    /// The same task as another process has stored it.
    pub(super) fn restored(
        self,
        created: Duration,
        updated: Duration,
        message: Option<String>,
        outcome: Option<TaskOutcome>,
    ) -> Self {
        self.detach();
        self.state.send_modify(|state| {
            state.message = match &outcome {
                Some(outcome) => outcome.message(),
                None => message,
            };
            state.updated = updated;
            state.outcome = outcome;
        });
        Self {
            created,
            is_elsewhere: true,
            ..self
        }
    }

    /// The random digits with which its id begins.
    pub(super) fn digits(&self) -> &str {
        self.id.split('.').next().unwrap_or_default()
    }

    /// Lifetime, from its creation.
    pub(super) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl.load(Ordering::Relaxed))
    }

    /// Raises the lifetime to `ttl`, before the task runs in the background.
    pub(super) fn live_at_least(&self, ttl: Duration) {
        self.ttl.fetch_max(as_millis(ttl), Ordering::Relaxed);
    }

    pub(super) fn set_message(&self, message: &str) {
        self.change(|state| {
            let is_new = !message.is_empty() && state.message.as_deref() != Some(message);
            if is_new {
                state.message = Some(truncated(message.to_owned()));
            }
            is_new
        });
    }

    /// Marks the request as answered: from now on questions wait in the task.
    pub(super) fn detach(&self) {
        self.detached.cancel();
    }

    /// True once the request was answered with the task.
    pub(super) fn is_detached(&self) -> bool {
        self.detached.is_cancelled()
    }

    /// Asks to answer the request with the task, and waits until that is done.
    pub(super) async fn request_detach(&self) {
        self.detach_request.notify_one();
        self.detached.cancelled().await;
    }

    /// Completes when the work asks to answer the request with the task.
    pub(super) async fn detach_requested(&self) {
        self.detach_request.notified().await;
    }

    /// Ends the task; false if it has ended already.
    pub(super) fn end(&self, outcome: TaskOutcome) -> bool {
        self.change(|state| {
            state.message = outcome.message();
            state.questions = Map::new();
            state.answers = HashMap::new();
            state.outcome = Some(outcome);
            true
        })
    }

    /// Ends the task as cancelled and stops its work; false if it has ended already.
    pub(super) fn cancel(&self) -> bool {
        let is_cancelled = self.end(TaskOutcome::Cancelled);
        self.stop.cancel();
        is_cancelled
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state().outcome.is_some()
    }

    /// True if it has ended with an error.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state().outcome, Some(TaskOutcome::Error(_)))
    }

    pub(super) fn state(&self) -> watch::Ref<'_, TaskState> {
        self.state.borrow()
    }

    /// Its changes from now on.
    pub(super) fn changes(&self) -> watch::Receiver<TaskState> {
        self.state.subscribe()
    }

    /// The stored bytes.
    pub(super) fn size(&self) -> usize {
        let state = self.state();
        match &state.outcome {
            Some(outcome) => outcome.size(),
            None => state.answers.values().map(size).sum(),
        }
    }

    /// Changes a task that has not ended; `change` returns whether it has changed the state.
    pub(super) fn change(&self, change: impl FnOnce(&mut TaskState) -> bool) -> bool {
        let now = self.clock.unix_time();
        self.state.send_if_modified(|state| {
            let has_changed = state.outcome.is_none() && change(state);
            if has_changed {
                state.updated = now;
            }
            has_changed
        })
    }
}

/// The id of a task of `tool`, which finds its work by the digits and the reference. A name of a tool has
/// no dot.
pub(super) fn id(digits: &str, tool: &str, reference: &str) -> String {
    let dot = if reference.is_empty() { "" } else { "." };
    format!("{digits}.{tool}{dot}{reference}")
}

fn size(answer: &Result<Value, String>) -> usize {
    match answer {
        Ok(answer) => answer.to_string().len(),
        Err(reason) => reason.len(),
    }
}
