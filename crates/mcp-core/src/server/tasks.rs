//! Tasks: calls that go on after their request was answered. The extension
//! `io.modelcontextprotocol/tasks` of the modern era, and the experimental tasks of 2025-11-25.
//!
//! * [`task`]: what the work of a task, its polls and its listeners share; [`outcome`]: its outcome.
//! * [`lifecycle`]: from the first step of the work to the day on which the task is forgotten.
//! * [`calls`]: which calls become tasks.
//! * [`methods`] and [`experimental`]: the methods of both specifications, and of the older one alone.
//! * [`client`]: the way from its work to its client, and its questions.
//! * [`listening`]: telling subscriptions of them.
//! * [`wire`]: what is told about a task.
//!
//! They are kept in memory, for their callers alone, and end with the process: work that must
//! outlive it needs a handle of its own at the service.

pub(super) mod calls;
mod client;
mod experimental;
mod lifecycle;
mod listening;
mod methods;
mod outcome;
mod task;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use self::task::Task;
use crate::tool::{ToolError, ToolErrorKind};

/// The name of the extension.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How often a client is asked to look.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A task and its result are kept this long, counted from its creation …
const TTL: Duration = Duration::from_secs(3600);
/// … or as long as the client of 2025-11-25 asks for, within these.
const MIN_TTL: Duration = Duration::from_secs(1);
const MAX_TTL: Duration = Duration::from_secs(24 * 3600);

/// Tasks that are kept. The oldest that has ended makes room for a new one.
const MAX_TASKS: usize = 1000;
/// Tasks of one caller that may run at the same time.
const MAX_RUNNING: usize = 100;
/// Bytes of results and answers that are kept. The oldest results make room.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Requests that may wait for the ends of tasks; less than the requests that a transport admits.
const MAX_WAITING: usize = 200;

/// The tasks of a server.
pub(super) struct Tasks {
    by_id: Mutex<HashMap<String, Arc<Task>>>,
    waiting: Semaphore,
}

impl Tasks {
    pub(super) fn new() -> Self {
        Self {
            by_id: Mutex::default(),
            waiting: Semaphore::new(MAX_WAITING),
        }
    }

    /// Keeps a new task.
    ///
    /// # Errors
    /// In words for the model, when there are too many that run.
    fn keep(&self, task: &Arc<Task>) -> Result<(), ToolError> {
        let full = |message| ToolError::new(ToolErrorKind::Unavailable, message);
        let mut tasks = self.tasks();
        let running = |other: &&Arc<Task>| other.owner == task.owner && !other.has_ended();
        if tasks.values().filter(running).count() >= MAX_RUNNING {
            return Err(full(format!(
                "{MAX_RUNNING} tasks are running already; cancel one or wait for its end."
            )));
        }
        if tasks.len() >= MAX_TASKS && !forget_oldest(&mut tasks) {
            return Err(full(
                "The server is at its limit of tasks; try again later.".to_owned(),
            ));
        }
        tasks.insert(task.id.clone(), Arc::clone(task));
        Ok(())
    }

    /// The task with this id, if it is the caller's. The same answer for all others, so that an id
    /// tells nothing to whom it does not belong.
    fn find(&self, id: &str, caller: Option<&str>) -> Option<Arc<Task>> {
        let task = self.tasks().get(id).cloned()?;
        (task.owner.as_deref() == caller).then_some(task)
    }

    /// The caller's tasks, oldest first.
    fn owned_by(&self, caller: &str) -> Vec<Arc<Task>> {
        let tasks = self.tasks();
        let own = tasks
            .values()
            .filter(|task| task.owner.as_deref() == Some(caller));
        let mut own: Vec<Arc<Task>> = own.cloned().collect();
        own.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        own
    }

    /// Ends and forgets all tasks of a caller.
    pub(super) fn forget_all(&self, caller: &str) {
        for task in self.owned_by(caller) {
            task.cancel();
            task.gone.cancel();
            self.forget(&task.id);
        }
    }

    fn forget(&self, id: &str) {
        self.tasks().remove(id);
    }

    /// Forgets results until `more` bytes fit; false if they never do.
    fn make_room(&self, more: usize) -> bool {
        let mut tasks = self.tasks();
        let fits = |tasks: &HashMap<String, Arc<Task>>| {
            let kept: usize = tasks.values().map(|task| task.size()).sum();
            kept.saturating_add(more) <= MAX_BYTES
        };
        while !fits(&tasks) {
            if !forget_oldest(&mut tasks) {
                return false;
            }
        }
        true
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<String, Arc<Task>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the task that is oldest among those that have ended; false if none has.
fn forget_oldest(tasks: &mut HashMap<String, Arc<Task>>) -> bool {
    let ended = tasks.values().filter(|task| task.has_ended());
    let Some(id) = ended
        .min_by_key(|task| task.created)
        .map(|task| task.id.clone())
    else {
        return false;
    };
    if let Some(task) = tasks.remove(&id) {
        task.gone.cancel();
    }
    true
}
