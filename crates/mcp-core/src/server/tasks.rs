//! Tasks: calls that continue after their request was answered. The extension
//! `io.modelcontextprotocol/tasks` of the modern era, and the experimental tasks of 2025-11-25.
//!
//! * [`task`]: the state that the work of a task, polls and subscribers share, its JSON, its client and its end.
//! * [`run`]: decides which calls become tasks, runs their work, and removes a task when it expires.
//! * [`methods`]: the methods of both specifications, and notifications of changes.
//! * [`store`]: the store of tasks, where several processes serve the same clients, and the tasks of others in it.
//!
//! Tasks are kept in memory, each visible only to its caller in its view, and end with the process. Those of a tool that
//! finds its work at the service again ([`crate::tool::Tool::find_task`]) survive a restart.

mod methods;
mod run;
mod store;
mod task;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;

pub(super) use self::run::Mode;
pub use self::store::{StoredTask, TaskOwner, TaskStore};
use self::task::Task;
use super::Caller;
use crate::tool::ToolError;

pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The poll interval that clients are told.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The lifetime of a task and its result, from its creation …
const TTL: Duration = Duration::from_secs(3600);
/// … or the lifetime that a client of 2025-11-25 asks for, within these bounds.
const MIN_TTL: Duration = Duration::from_secs(1);
const MAX_TTL: Duration = Duration::from_secs(24 * 3600);

/// Stored tasks. A new one replaces the oldest that has ended.
const MAX_TASKS: usize = 1000;
/// Running tasks of one caller, in all views.
const MAX_RUNNING_TASKS: usize = 100;
/// Bytes of stored results and answers. The oldest results are removed first.
const MAX_STORED_BYTES: usize = 64 * 1024 * 1024;
/// Requests that wait for the end of a task; less than the requests that a transport admits.
const MAX_WAITING_REQUESTS: usize = 200;

/// By caller, view and id: after a restart two callers may find one task, each its own.
type TaskMap = HashMap<TaskKey, Arc<Task>>;
type TaskKey = (Option<Arc<str>>, Option<Arc<str>>, String);

pub(super) struct Tasks {
    by_id: Mutex<TaskMap>,
    waiting: Semaphore,
}

impl Tasks {
    pub(super) fn new() -> Self {
        Self {
            by_id: Mutex::default(),
            waiting: Semaphore::new(MAX_WAITING_REQUESTS),
        }
    }

    /// Stores a new task. Returns it, or the one that is stored already.
    ///
    /// # Errors
    /// There are too many running tasks; the message is for the model.
    fn insert(&self, task: &Arc<Task>) -> Result<Arc<Task>, ToolError> {
        let mut tasks = self.tasks();
        if let Some(stored) = tasks.get(&key(task)) {
            return Ok(Arc::clone(stored));
        }
        let running = |other: &&Arc<Task>| other.caller == task.caller && !other.has_ended();
        if tasks.values().filter(running).count() >= MAX_RUNNING_TASKS {
            return Err(ToolError::unavailable(format!(
                "{MAX_RUNNING_TASKS} tasks are running already; cancel one, or wait until one ends."
            )));
        }
        if tasks.len() >= MAX_TASKS && !remove_oldest(&mut tasks) {
            let message = "The server has reached its limit of tasks; try again later.";
            return Err(ToolError::unavailable(message));
        }
        tasks.insert(key(task), Arc::clone(task));
        Ok(Arc::clone(task))
    }

    /// The task with this id, if it is the caller's. Unknown ids and ids of other callers are
    /// indistinguishable.
    fn find(&self, id: &str, caller: &Caller) -> Option<Arc<Task>> {
        let (name, view) = (caller.name().cloned(), caller.view.clone());
        let key = (name, view, id.to_owned());
        self.tasks().get(&key).cloned()
    }

    /// The tasks of a caller in all views, oldest first.
    fn of_caller(&self, caller: &str) -> Vec<Arc<Task>> {
        let tasks = self.tasks();
        let own = |task: &&Arc<Task>| task.caller.as_deref() == Some(caller);
        let mut own: Vec<Arc<Task>> = tasks.values().filter(own).cloned().collect();
        own.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        own
    }

    /// Cancels and removes all tasks of a caller.
    pub(super) fn remove_all(&self, caller: &str) {
        for task in self.of_caller(caller) {
            task.cancel();
            task.removed.cancel();
            self.remove(&task);
        }
    }

    fn remove(&self, task: &Task) {
        self.tasks().remove(&key(task));
    }

    /// Removes the oldest results until `more` bytes fit; false if they never fit.
    fn make_room(&self, more: usize) -> bool {
        let mut tasks = self.tasks();
        let stored = |tasks: &TaskMap| tasks.values().map(|task| task.size()).sum::<usize>();
        while stored(&tasks).saturating_add(more) > MAX_STORED_BYTES {
            if !remove_oldest(&mut tasks) {
                return false;
            }
        }
        true
    }

    fn tasks(&self) -> MutexGuard<'_, TaskMap> {
        self.by_id.lock()
    }
}

fn key(task: &Task) -> TaskKey {
    (task.caller.clone(), task.view.clone(), task.id.clone())
}

/// Removes the oldest task that has ended; false if none has ended.
fn remove_oldest(tasks: &mut TaskMap) -> bool {
    let ended = tasks.values().filter(|task| task.has_ended());
    let oldest = ended.min_by_key(|task| task.created).cloned();
    if let Some(task) = &oldest {
        tasks.remove(&key(task));
        task.removed.cancel();
    }
    oldest.is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn task(id: usize, caller: &Caller) -> Arc<Task> {
        let (closing, none) = (CancellationToken::new(), Map::new());
        let id = format!("{id:032x}");
        Arc::new(Task::new(id, caller, TTL, &none, &closing))
    }

    fn caller(name: Option<&str>, view: Option<&str>) -> Caller {
        Caller {
            view: view.map(Into::into),
            ..Caller::new(name.map(Into::into), None)
        }
    }

    #[test]
    fn running_tasks_are_counted_in_all_views() {
        let tasks = Tasks::new();
        for id in 0..MAX_RUNNING_TASKS {
            let view = format!("v{}", id % 3);
            let task = task(id, &caller(Some("alice"), Some(&view)));
            assert!(tasks.insert(&task).is_ok());
        }
        let more = |name| tasks.insert(&task(MAX_RUNNING_TASKS, &caller(Some(name), None)));
        assert!(more("alice").is_err());
        assert!(more("bob").is_ok());
    }
}
