//! Telling `subscriptions/listen` of tasks (the extension, "Task Status Notifications").

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream, SelectAll};
use tokio::sync::watch;

use super::calls::undeclared;
use super::task::{Task, TaskState};
use crate::error::Error;
use crate::server::Server;
use crate::server::context::Context;

/// The most tasks that one subscription tells of: their states must fit into a transport's queue.
const MAX_LISTENED: usize = 50;

/// The tasks that one subscription tells of.
pub(in crate::server) struct Listening {
    /// Their ids.
    pub(in crate::server) ids: Vec<String>,
    changes: SelectAll<BoxStream<'static, Arc<Task>>>,
}

impl Server {
    /// Listens to those of `ids` that are tasks of the caller.
    pub(in crate::server) fn listen_to_tasks(
        &self,
        ids: &BTreeSet<String>,
        context: &Context<'_>,
    ) -> Result<Listening, Error> {
        if !ids.is_empty() && !context.call.supports_tasks() {
            return Err(undeclared());
        }
        let caller = context.caller.name().map(|name| &**name);
        let tasks = ids.iter().filter_map(|id| self.tasks.find(id, caller));
        let tasks: Vec<Arc<Task>> = tasks.take(MAX_LISTENED).collect();
        Ok(Listening {
            ids: tasks.iter().map(|task| task.id.clone()).collect(),
            changes: tasks.into_iter().map(changes).collect(),
        })
    }
}

impl Listening {
    /// The `DetailedTask` of the next task that has changed, without braces. At first every task
    /// counts as changed: it may have ended before anybody listened.
    pub(in crate::server) async fn next(&mut self) -> String {
        match self.changes.next().await {
            Some(task) => task.detailed(),
            None => std::future::pending().await,
        }
    }
}

/// Ends after the end of the task.
fn changes(task: Arc<Task>) -> BoxStream<'static, Arc<Task>> {
    let mut changes = task.changes();
    changes.mark_changed();
    stream::unfold((task, changes), next).boxed()
}

async fn next(
    (task, mut changes): (Arc<Task>, watch::Receiver<TaskState>),
) -> Option<(Arc<Task>, (Arc<Task>, watch::Receiver<TaskState>))> {
    if !changes.has_changed().ok()? && task.has_ended() {
        return None;
    }
    changes.changed().await.ok()?;
    Some((Arc::clone(&task), (task, changes)))
}
