//! Tasks of other processes, as the store knows them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, OptionFuture};

use super::outcome::TaskOutcome;
use super::store::{self, StoredTask};
use super::task::Task;
use crate::error::Error;
use crate::server::{Caller, Server};
use crate::tool::ToolError;

/// Interval of looking for the outcome of a task of another process, while a request waits for it.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

impl Server {
    /// Stores a task for the other processes. The result completes once they can find it, and need not be awaited.
    pub(super) fn save_task(&self, task: &Task) -> OptionFuture<BoxFuture<'static, ()>> {
        store::save(self.features.task_store.as_ref(), task)
    }

    /// Returns a task of the store: with its outcome, or failed if its process has ended before it.
    ///
    /// # Errors
    /// The store cannot be used now.
    pub(super) async fn stored_task(
        &self,
        id: &str,
        caller: &Caller,
    ) -> Result<Option<Arc<Task>>, Error> {
        let Some(tasks) = &self.features.task_store else {
            return Ok(None);
        };
        let owner = store::owner(caller.name(), caller.view());
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
        let owner = store::owner(task.owner.as_ref(), task.view.as_ref());
        let (id, clock) = (task.id.clone(), Arc::clone(&self.clock));
        let task = Arc::downgrade(task);
        (self.settings.spawn)(Box::pin(async move {
            while task.strong_count() > 0 {
                clock.sleep(LOOK_INTERVAL).await;
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
        }));
    }

    /// Asks the process of a task to cancel it, and waits for its end, but not for long. Returns false if it has not
    /// been cancelled.
    ///
    /// # Errors
    /// The store cannot be used now.
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
            () = self.clock.sleep(4 * LOOK_INTERVAL) => {
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
        let owner = store::owner(caller.name(), caller.view());
        let found = tasks.list(owner).await.map_err(Error::ToolFailed)?;
        let others = found.iter();
        let others = others.filter(|stored| self.tasks.find(&stored.id, caller).is_none());
        Ok(others.map(|stored| self.restored(stored, caller)).collect())
    }

    fn restored(&self, stored: &StoredTask, caller: &Caller) -> Task {
        let [created, updated, ttl] =
            [stored.created, stored.updated, stored.ttl].map(Duration::from_millis);
        let task = Task::new(
            stored.id.clone(),
            caller,
            ttl,
            &serde_json::Map::new(),
            &self.closing,
            Arc::clone(&self.clock),
        );
        task.restored(created, updated, stored.message.clone(), outcome(stored))
    }
}

/// The outcome of a stored task; `None` while it runs.
fn outcome(stored: &StoredTask) -> Option<TaskOutcome> {
    match &stored.outcome {
        Some(outcome) => Some(outcome.restore()),
        None => stored.is_lost.then(TaskOutcome::lost),
    }
}
