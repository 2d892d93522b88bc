//! Tasks that other replicas have, as the store knows them.

use std::sync::Arc;
use std::time::Duration;

use super::store::{self, StoredTask};
use super::task::Task;
use crate::error::Error;
use crate::server::context::Context;
use crate::server::{Caller, Place, ReplicaId, Server};

impl Server {
    /// Stores a task for the other replicas.
    pub(super) fn save_task(&self, task: &Task) {
        store::save(self.features.task_store.as_ref(), task);
    }

    /// Returns a task of the store: with its outcome, or failed if its replica is gone.
    pub(super) async fn stored_task(
        &self,
        id: &str,
        context: &Context<'_>,
    ) -> Result<Option<Arc<Task>>, Error> {
        let Some(tasks) = &self.features.task_store else {
            return Ok(None);
        };
        let owner = store::owner(context.caller.name(), context.caller.view());
        let found = tasks.find(owner, id).await.map_err(Error::ToolFailed)?;
        Ok(found.map(|found| Arc::new(self.restored(&found, context.caller))))
    }

    /// Returns the tasks of a caller that other replicas have.
    pub(super) async fn tasks_elsewhere(&self, caller: &Caller) -> Result<Vec<Task>, Error> {
        let Some(tasks) = &self.features.task_store else {
            return Ok(Vec::new());
        };
        let owner = store::owner(caller.name(), caller.view());
        let found = tasks.list(owner).await.map_err(Error::ToolFailed)?;
        let others = found
            .iter()
            .filter(|stored| self.tasks.find(&stored.id, caller).is_none());
        Ok(others.map(|stored| self.restored(stored, caller)).collect())
    }

    fn restored(&self, stored: &StoredTask, caller: &Caller) -> Task {
        let place = caller
            .forwarding()
            .zip(ReplicaId::from_digits(&stored.id))
            .map_or(Place::Gone, |(forwarding, id)| forwarding.place(id));
        let outcome = match &stored.outcome {
            Some(outcome) => Some(outcome.restore()),
            None if matches!(place, Place::There(_)) => None,
            None => Some(store::lost()),
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
