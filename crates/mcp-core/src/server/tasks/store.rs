//! Tasks in a store that several processes share, so that each of them can answer for the tasks of all.
//!
//! The process that has started a task runs it until its end. The others read its state, and ask for its cancellation.
//! A task whose process has ended has failed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, OptionFuture};
use hmac_sha256::Hash;
use serde::{Deserialize, Serialize};
use serde_json::Map;
use tokio::time::sleep;

use super::task::{Task, TaskOutcome, as_millis};
use crate::error::Error;
use crate::server::{Caller, Server};
use crate::tool::ToolError;

/// The largest result that is stored; a larger one ends with its process.
const MAX_STORED_RESULT_BYTES: usize = 1024 * 1024;

/// Interval of looking for the outcome of a task of another process, while a request waits for it.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// A task in the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredTask {
    /// Its id.
    pub id: String,
    /// Milliseconds since 1970.
    pub(super) created: u64,
    pub(super) updated: u64,
    /// Its lifetime, in milliseconds.
    pub(super) ttl: u64,
    pub(super) message: Option<String>,
    /// `None` while it runs.
    pub(super) outcome: Option<TaskOutcome>,
    /// True if its process has ended before it; said by the store, not stored.
    #[serde(skip)]
    pub is_lost: bool,
}

impl StoredTask {
    /// Returns true if it has ended.
    pub fn has_ended(&self) -> bool {
        self.outcome.is_some()
    }
}

/// The caller of a task and its view, hashed: the name of a caller may be the id of a session, which is a secret.
pub type TaskOwner = [u8; 32];

/// A store of tasks.
pub trait TaskStore: Send + Sync {
    /// Stores the state of a task for its lifetime, whether the result is awaited or not. That completes once other
    /// processes can find the task; within a second, if the store cannot be used now: then it is stored later.
    /// The outcome that was stored first stays.
    fn save(
        &self,
        owner: TaskOwner,
        task: StoredTask,
        lifetime: Duration,
    ) -> BoxFuture<'static, ()>;

    /// Finds a task.
    ///
    /// # Errors
    /// The store cannot be used now.
    fn find<'a>(
        &'a self,
        owner: TaskOwner,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredTask>, ToolError>>;

    /// Finds the tasks of a caller, oldest first; at most a thousand.
    ///
    /// # Errors
    /// The store cannot be used now.
    fn list(&self, owner: TaskOwner) -> BoxFuture<'_, Result<Vec<StoredTask>, ToolError>>;

    /// Asks the process that runs the task to cancel it.
    ///
    /// # Errors
    /// The store cannot be used now.
    fn cancel<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), ToolError>>;

    /// Completes when another process asks for the cancellation of this task.
    fn cancelled(&self, id: &str) -> BoxFuture<'static, ()>;
}

/// Stores a task, if there is a store. The result need not be awaited.
pub(super) fn save(
    store: Option<&Arc<dyn TaskStore>>,
    task: &Task,
) -> OptionFuture<BoxFuture<'static, ()>> {
    let saved = store.map(|store| {
        let owner = owner(task.caller.as_ref(), task.view.as_ref());
        store.save(owner, stored(task), task.ttl())
    });
    saved.into()
}

fn stored(task: &Task) -> StoredTask {
    let state = task.state();
    StoredTask {
        id: task.id.clone(),
        created: as_millis(task.created),
        updated: as_millis(state.updated),
        ttl: as_millis(task.ttl()),
        message: state.message.clone(),
        outcome: state.outcome.clone().map(small_enough),
        is_lost: false,
    }
}

/// The outcome, without a result that is too large for the store.
fn small_enough(outcome: TaskOutcome) -> TaskOutcome {
    match outcome.size() {
        size if size > MAX_STORED_RESULT_BYTES => {
            TaskOutcome::failed(ToolError::unavailable(format!(
                "The task has completed, but its result was larger than {MAX_STORED_RESULT_BYTES} bytes and is gone \
                 with its process."
            )))
        }
        _ => outcome,
    }
}

pub(super) fn owner(caller: Option<&Arc<str>>, view: Option<&Arc<str>>) -> TaskOwner {
    let mut hash = Hash::new();
    // No name has a line end.
    for part in [caller, view] {
        match part {
            Some(part) => {
                hash.update(b"+");
                hash.update(part.as_bytes());
            }
            None => hash.update(b"-"),
        }
        hash.update(b"\n");
    }
    hash.finalize()
}

impl Server {
    /// Stores a task for the other processes. The result completes once they can find it, and need not be awaited.
    pub(super) fn save_task(&self, task: &Task) -> OptionFuture<BoxFuture<'static, ()>> {
        save(self.features.task_store.as_ref(), task)
    }

    /// Returns a task of the store: with its outcome, or failed if its process has ended before it.
    pub(super) async fn stored_task(
        &self,
        id: &str,
        caller: &Caller,
    ) -> Result<Option<Arc<Task>>, Error> {
        let Some(tasks) = &self.features.task_store else {
            return Ok(None);
        };
        let owner = owner(caller.name(), caller.view.as_ref());
        let found = tasks.find(owner, id).await.map_err(Error::ToolFailed)?;
        Ok(found.map(|stored| {
            let task = Arc::new(self.restored(&stored, caller));
            if stored.is_lost {
                // The next one who asks need not look for its process again.
                drop(self.save_task(&task));
            }
            task
        }))
    }

    /// Gives a task of another process its outcome, as long as a request waits for it.
    pub(super) fn follow(&self, task: &Arc<Task>) {
        let Some(tasks) = self.features.task_store.clone() else {
            return;
        };
        if !task.is_elsewhere || task.has_ended() {
            return;
        }
        let owner = owner(task.caller.as_ref(), task.view.as_ref());
        let id = task.id.clone();
        let task = Arc::downgrade(task);
        tokio::spawn(async move {
            while task.strong_count() > 0 {
                sleep(LOOK_INTERVAL).await;
                // A store that is away may be back at the next look.
                let Ok(found) = tasks.find(owner, &id).await else {
                    continue;
                };
                let outcome = match &found {
                    Some(stored) => outcome(stored),
                    None => Some(TaskOutcome::expired()),
                };
                if let (Some(task), Some(outcome)) = (task.upgrade(), outcome) {
                    task.end(outcome);
                    return;
                }
            }
        });
    }

    /// Asks the process of a task to cancel it, and waits for its end, but not for long. Returns false if it has not
    /// been cancelled.
    pub(super) async fn cancel_elsewhere(&self, task: &Arc<Task>) -> Result<bool, Error> {
        let Some(tasks) = &self.features.task_store else {
            return Ok(false);
        };
        if task.has_ended() {
            return Ok(false);
        }
        tasks.cancel(&task.id).await.map_err(Error::ToolFailed)?;
        self.follow(task);
        let mut changes = task.changes();
        let ended = changes.wait_for(|state| state.outcome.is_some());
        let is_cancelled = tokio::select! {
            ended = ended => matches!(ended.as_deref().map(|state| &state.outcome), Ok(Some(TaskOutcome::Cancelled))),
            () = sleep(4 * LOOK_INTERVAL) => {
                let message = "The server process that runs this task has not confirmed its cancellation yet; ask for \
                    the state of the task.";
                return Err(Error::ToolFailed(ToolError::unavailable(message)));
            }
        };
        Ok(is_cancelled)
    }

    /// Returns the tasks of a caller that other processes have.
    pub(super) async fn tasks_elsewhere(&self, caller: &Caller) -> Result<Vec<Task>, Error> {
        let Some(tasks) = &self.features.task_store else {
            return Ok(Vec::new());
        };
        let owner = owner(caller.name(), caller.view.as_ref());
        let found = tasks.list(owner).await.map_err(Error::ToolFailed)?;
        let others = found.iter();
        let others = others.filter(|stored| self.tasks.find(&stored.id, caller).is_none());
        Ok(others.map(|stored| self.restored(stored, caller)).collect())
    }

    fn restored(&self, stored: &StoredTask, caller: &Caller) -> Task {
        let [created, updated, ttl] =
            [stored.created, stored.updated, stored.ttl].map(Duration::from_millis);
        let task = Task::new(stored.id.clone(), caller, ttl, &Map::new(), &self.closing);
        task.restored(created, updated, stored.message.clone(), outcome(stored))
    }
}

/// The outcome of a stored task; `None` while it runs.
fn outcome(stored: &StoredTask) -> Option<TaskOutcome> {
    match &stored.outcome {
        Some(outcome) => Some(outcome.clone()),
        None => stored.is_lost.then(TaskOutcome::lost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::Json;

    #[test]
    fn outcome_is_the_same_after_the_store_and_a_large_one_says_so() {
        let result = |text: String| TaskOutcome::Result {
            json: Json::from(text),
            is_error: false,
        };
        let stored = |outcome: &TaskOutcome| {
            let text = serde_json::to_string(&small_enough(outcome.clone())).unwrap();
            serde_json::from_str::<TaskOutcome>(&text).unwrap()
        };
        let exact = r#"{"content":[],"n":1.50}"#;
        match stored(&result(exact.to_owned())) {
            TaskOutcome::Result { json, is_error } => {
                assert_eq!((json.as_str(), is_error), (exact, false));
            }
            _ => panic!("another outcome"),
        }
        assert!(matches!(
            stored(&TaskOutcome::Cancelled),
            TaskOutcome::Cancelled
        ));
        let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(MAX_STORED_RESULT_BYTES));
        for (outcome, words) in [
            (result(large), "larger than"),
            (TaskOutcome::lost(), "process"),
        ] {
            assert!(stored(&outcome).message().unwrap().contains(words));
        }
    }

    #[test]
    fn owners_are_told_apart() {
        let name = |text: &str| Some(Arc::<str>::from(text));
        let pairs = [
            (None, None),
            (name("a"), None),
            (None, name("a")),
            (name("a"), name("b")),
            (name(""), None),
        ];
        let owners = pairs.map(|(caller, view)| owner(caller.as_ref(), view.as_ref()));
        for (at, one) in owners.iter().enumerate() {
            assert!(!owners[..at].contains(one), "{at}");
        }
    }
}
