//! Notifications of tasks for `subscriptions/listen` (the extension, "Task Status Notifications").

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream, SelectAll};

use super::calls::missing_extension;
use super::task::Task;
use crate::error::Error;
use crate::server::Server;
use crate::server::context::Context;

/// The most tasks of one subscription: their states must fit into a transport's queue.
const MAX_SUBSCRIBED_TASKS: usize = 50;

/// Tasks of one subscription that are searched at the service, since they may be from before a restart: one
/// after the other, before the subscription is acknowledged.
const MAX_SEARCHED_TASKS: usize = 10;

/// The tasks of one subscription.
pub(in crate::server) struct TaskSubscription {
    pub(in crate::server) ids: Vec<String>,
    changes: SelectAll<BoxStream<'static, Arc<Task>>>,
}

impl Server {
    /// Subscribes to those of `ids` that are tasks of the caller.
    pub(in crate::server) async fn subscribe_to_tasks(
        &self,
        ids: &BTreeSet<String>,
        context: &Context<'_>,
    ) -> Result<TaskSubscription, Error> {
        if !ids.is_empty() && !context.call.supports_tasks() {
            return Err(missing_extension());
        }
        let caller = context.caller;
        let is_known = |id: &&String| self.tasks.find(id, caller).is_some();
        let (mut known, others): (Vec<_>, Vec<_>) = ids.iter().partition(is_known);
        known.truncate(MAX_SUBSCRIBED_TASKS);
        let searched = MAX_SEARCHED_TASKS.min(MAX_SUBSCRIBED_TASKS - known.len());
        let mut tasks: Vec<Arc<Task>> = Vec::new();
        for id in known.into_iter().chain(others.into_iter().take(searched)) {
            let found = self.find_task(id, context).await;
            tasks.extend(found.ok().flatten());
        }
        tasks.iter().for_each(|task| self.follow(task));
        Ok(TaskSubscription {
            ids: tasks.iter().map(|task| task.id.clone()).collect(),
            changes: tasks.into_iter().map(changes).collect(),
        })
    }
}

impl TaskSubscription {
    /// The `DetailedTask` of the next task that has changed, without braces. At first every task
    /// counts as changed: it may have ended before the subscription.
    pub(in crate::server) async fn next(&mut self) -> String {
        match self.changes.next().await {
            Some(task) => task.detailed(),
            None => std::future::pending().await,
        }
    }
}

/// The changes of a task; ends after the task.
fn changes(task: Arc<Task>) -> BoxStream<'static, Arc<Task>> {
    let mut changes = task.changes();
    changes.mark_changed();
    let next = async |(task, mut changes): (Arc<Task>, tokio::sync::watch::Receiver<_>)| {
        if !changes.has_changed().ok()? && task.has_ended() {
            return None;
        }
        changes.changed().await.ok()?;
        Some((Arc::clone(&task), (task, changes)))
    };
    stream::unfold((task, changes), next).boxed()
}
