//! Tasks that other replicas have, or had, as the store knows them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, OptionFuture};

use super::resumption::Resumption;
use super::store::{self, StoredTask};
use super::task::Task;
use crate::error::Error;
use crate::server::context::Context;
use crate::server::{Caller, Place, Server};
use crate::tool::{EarlierTask, ToolError};

/// Interval of looking whether the replica of a task is gone …
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// … and the number of times: longer than it takes to know that.
const MAX_LOOKS: u32 = 24;
/// The most that a request waits until this process knows which of its tasks others have taken. It does not wait while
/// the beats of this process are written, which is nearly always.
const MAX_DOUBT: Duration = Duration::from_secs(1);
/// The random digits with which an id begins.
const DIGITS: usize = 32;

impl Server {
    /// Stores a task for the other replicas. The result completes once they can find it, and need not be awaited.
    pub(super) fn save_task(&self, task: &Task) -> OptionFuture<BoxFuture<'static, ()>> {
        store::save(self.features.task_store.as_ref(), task)
    }

    /// The caller's task that this process has, unless another process has taken it.
    pub(super) async fn task_here(&self, id: &str, caller: &Caller) -> Option<Arc<Task>> {
        self.tasks.find(id, caller)?;
        self.taken_tasks_known().await;
        let task = self.tasks.find(id, caller)?;
        (!self.is_taken(&task)).then_some(task)
    }

    /// Completes when it is known which tasks of this process others have taken, as they do during a pause of it. Where
    /// the table is out of reach, that is not waited for: the client hears what this process knows.
    pub(super) async fn taken_tasks_known(&self) {
        if let Some(tasks) = &self.features.task_store {
            tokio::select! {
                biased;
                () = tasks.certain() => {}
                () = self.clock.sleep(MAX_DOUBT) => {}
            }
        }
    }

    /// Returns true if another process is known to have taken the task.
    pub(super) fn is_taken(&self, task: &Task) -> bool {
        let tasks = self.features.task_store.as_ref();
        tasks.is_some_and(|tasks| tasks.has_taken(&task.id))
    }

    /// Returns a task of the store: with its outcome, failed if its replica has ended, or running here from now on.
    ///
    /// # Errors
    /// It is at another replica, or the store or its backend cannot be used now.
    pub(super) async fn stored_task(
        &self,
        id: &str,
        context: &Context<'_>,
    ) -> Result<Option<Arc<Task>>, Error> {
        let Some(tasks) = &self.features.task_store else {
            return Ok(None);
        };
        let owner = store::owner(context.caller.name(), context.caller.view());
        for _ in 0..MAX_LOOKS {
            let found = tasks.find(owner, id).await.map_err(Error::ToolFailed)?;
            let Some(found) = found else {
                return Ok(None);
            };
            if found.has_ended() || found.is_lost {
                return Ok(Some(Arc::new(self.restored(&found, context.caller))));
            }
            match (found.place, context.caller.forwarding()) {
                (Place::Here, _) => return self.go_on(&found, context).await.map(Some),
                (place @ Place::There(_), Some(forwarding)) => forwarding.check(place)?,
                _ => {}
            }
            if found.place == Place::Gone {
                tasks
                    .adopt(owner, &found)
                    .await
                    .map_err(Error::ToolFailed)?;
                let found = tasks.find(owner, id).await.map_err(Error::ToolFailed)?;
                if found.is_some_and(|found| found.place != Place::Gone || found.is_lost) {
                    continue;
                }
            }
            // Its replica cannot be reached, but writes its beats, or has not been silent for long enough.
            self.clock.sleep(LOOK_INTERVAL).await;
        }
        Err(Error::ToolFailed(ToolError::unavailable(
            "The replica that runs this task does not answer; try again.",
        )))
    }

    /// Goes on with a task of the store that is of this process but does not run in it.
    async fn go_on(&self, stored: &StoredTask, context: &Context<'_>) -> Result<Arc<Task>, Error> {
        if let Some(Resumption { tool, reference }) = &stored.resumption {
            if self.catalog_of(context.caller).tool(tool).is_none() {
                let text = "The tool of this task is not there at the moment; try again.";
                return Err(Error::ToolFailed(ToolError::unavailable(text)));
            }
            let digits = stored.id.get(..DIGITS).unwrap_or_default();
            let task = EarlierTask { digits, reference };
            // Boxed: few requests need it.
            if let Some(task) = Box::pin(self.earlier(&stored.id, tool, task, context)).await? {
                return Ok(task);
            }
        }
        let lost = StoredTask {
            is_lost: true,
            ..stored.clone()
        };
        let task = Arc::new(self.restored(&lost, context.caller));
        drop(self.save_task(&task));
        Ok(task)
    }

    /// Returns the tasks of a caller that other replicas have.
    pub(super) async fn tasks_elsewhere(&self, caller: &Caller) -> Result<Vec<Task>, Error> {
        let Some(tasks) = &self.features.task_store else {
            return Ok(Vec::new());
        };
        let owner = store::owner(caller.name(), caller.view());
        let found = tasks.list(owner).await.map_err(Error::ToolFailed)?;
        let is_elsewhere = |stored: &&StoredTask| {
            let here = self.tasks.find(&stored.id, caller);
            here.is_none_or(|task| self.is_taken(&task))
        };
        let others = found.iter().filter(is_elsewhere);
        Ok(others.map(|stored| self.restored(stored, caller)).collect())
    }

    fn restored(&self, stored: &StoredTask, caller: &Caller) -> Task {
        let outcome = match &stored.outcome {
            Some(outcome) => Some(outcome.restore()),
            None => stored.is_lost.then(store::lost),
        };
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
        task.restored(created, updated, stored.message.clone(), outcome)
    }
}
