//! One task: what its work, its polls and its listeners share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::outcome::TaskOutcome;
use crate::clock::Clock;
use crate::error::truncated;

/// A call that goes on after its request was answered.
pub(in crate::server) struct Task {
    /// 128 random bits: where the owner is not known, whoever knows the id may ask for the task.
    pub(super) id: String,
    /// The caller that alone may see it.
    pub(super) owner: Option<Arc<str>>,
    /// Since 1970.
    pub(super) created: Duration,
    /// From its creation.
    pub(super) ttl: Duration,
    /// Tells the work to stop.
    pub(super) stop: CancellationToken,
    /// It is no longer kept.
    pub(super) gone: CancellationToken,
    /// The work wants its request to be answered with the task.
    out: Notify,
    /// It was.
    detached: CancellationToken,
    clock: Arc<dyn Clock>,
    state: watch::Sender<TaskState>,
}

/// The mutable state of a task.
pub(super) struct TaskState {
    /// What the work said last about itself.
    pub(super) message: Option<String>,
    /// Since 1970.
    pub(super) updated: Duration,
    /// Open questions to the client, by key.
    pub(super) questions: Map<String, Value>,
    /// The client's answers, or why there is none.
    pub(super) answers: HashMap<String, Result<Value, String>>,
    pub(super) end: Option<TaskOutcome>,
}

impl Task {
    /// A task of `owner` that starts with these answers of its client.
    pub(super) fn new(
        id: String,
        owner: Option<Arc<str>>,
        ttl: Duration,
        answers: &Map<String, Value>,
        closing: &CancellationToken,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let created = clock.unix_time();
        let state = TaskState {
            message: None,
            updated: created,
            questions: Map::new(),
            answers: answers
                .iter()
                .map(|(key, answer)| (key.clone(), Ok(answer.clone())))
                .collect(),
            end: None,
        };
        Self {
            id,
            owner,
            created,
            ttl,
            stop: closing.child_token(),
            gone: CancellationToken::new(),
            out: Notify::new(),
            detached: CancellationToken::new(),
            clock,
            state: watch::Sender::new(state),
        }
    }

    /// What stops the work.
    pub(super) fn token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Says how the work stands.
    pub(super) fn say(&self, message: &str) {
        self.change(|state| {
            let is_news = !message.is_empty() && state.message.as_deref() != Some(message);
            if is_news {
                state.message = Some(truncated(message.to_owned()));
            }
            is_news
        });
    }

    /// From now on its questions wait in it.
    pub(super) fn detach(&self) {
        self.detached.cancel();
    }

    /// True once its request was answered with it.
    pub(super) fn is_detached(&self) -> bool {
        self.detached.is_cancelled()
    }

    /// Has the request answered with the task; completes when that is so.
    pub(super) async fn ask_out(&self) {
        self.out.notify_one();
        self.detached.cancelled().await;
    }

    /// Completes when the work wants the request to be answered with the task.
    pub(super) async fn wants_out(&self) {
        self.out.notified().await;
    }

    /// Ends it; false if it had ended already.
    pub(super) fn end(&self, end: TaskOutcome) -> bool {
        self.change(|state| {
            state.message = end.message();
            state.questions = Map::new();
            state.answers = HashMap::new();
            state.end = Some(end);
            true
        })
    }

    /// Ends it as the caller wishes, and the work soon; false if it had ended already.
    pub(super) fn cancel(&self) -> bool {
        let is_news = self.end(TaskOutcome::Cancelled);
        self.stop.cancel();
        is_news
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state().end.is_some()
    }

    /// What it is now.
    pub(super) fn state(&self) -> watch::Ref<'_, TaskState> {
        self.state.borrow()
    }

    /// Its changes from now on.
    pub(super) fn changes(&self) -> watch::Receiver<TaskState> {
        self.state.subscribe()
    }

    /// The bytes that it keeps for its client.
    pub(super) fn size(&self) -> usize {
        let state = self.state();
        match &state.end {
            Some(end) => end.size(),
            None => state.answers.values().map(size).sum(),
        }
    }

    /// Changes a task that has not ended; `change` says whether it has done so.
    pub(super) fn change(&self, change: impl FnOnce(&mut TaskState) -> bool) -> bool {
        let now = self.clock.unix_time();
        self.state.send_if_modified(|state| {
            let is_news = state.end.is_none() && change(state);
            if is_news {
                state.updated = now;
            }
            is_news
        })
    }
}

fn size(answer: &Result<Value, String>) -> usize {
    match answer {
        Ok(answer) => answer.to_string().len(),
        Err(reason) => reason.len(),
    }
}
