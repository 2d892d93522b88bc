//! Subscriptions: announcing changes of tasks.
//!
//! Only tasks with subscribers are polled, at intervals that grow while nothing happens.

use std::collections::BTreeSet;
use std::time::Duration;

use upstream::poll::{self, Backoff, PollTarget};

use super::uri::{self, TaskPart};
use crate::OpenHands;
use crate::api::{ApiFailure, ApiResult, TaskId};
use crate::git::content_id;

/// The poll intervals of a task.
const POLL_BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(3));

/// A task with subscribers.
struct WatchedTask<'a> {
    service: &'a OpenHands,
    id: TaskId,
    /// The state at the last poll; `None` before the first one.
    seen: Option<TaskState>,
    /// The resources that were announced since their subscription.
    announced: BTreeSet<String>,
}

/// The facts about a task that change with every event.
#[derive(Default, PartialEq)]
struct TaskState {
    /// The status and the time of the last event; `None` if the task does not exist.
    status: Option<String>,
    /// The git tree id of its files; only if its diff has subscribers.
    files: Option<String>,
}

/// Announces changes for as long as the server runs.
pub(crate) async fn announce_changes(service: &OpenHands) {
    let task = |uri: &str| uri::parse(uri).map(|(id, _)| id);
    let open = |id: &TaskId| WatchedTask {
        service,
        id: *id,
        seen: None,
        announced: BTreeSet::new(),
    };
    poll::watch(&service.changes, task, open).await;
}

impl PollTarget for WatchedTask<'_> {
    async fn poll(&mut self, watched: &BTreeSet<String>) -> Vec<String> {
        self.announced.retain(|uri| watched.contains(uri));
        let watches_files = watched.iter().any(|uri| part(uri) == Some(TaskPart::Diff));
        match self.read(watches_files).await {
            Ok(now) => self.changed(now, watched),
            // The next poll will find any change.
            Err(failure) => {
                tracing::debug!(task = %self.id, ?failure, "cannot poll the task");
                Vec::new()
            }
        }
    }

    fn backoff(&self) -> Backoff {
        POLL_BACKOFF
    }
}

fn part(uri: &str) -> Option<TaskPart> {
    uri::parse(uri).map(|(_, part)| part)
}

impl WatchedTask<'_> {
    async fn read(&self, watches_files: bool) -> ApiResult<TaskState> {
        let found = async {
            let server = self.service.servers.for_task(self.id).await?;
            let task = server.conversation(self.id).await?;
            Ok::<_, ApiFailure>((server, task))
        };
        let (server, task) = match found.await {
            Ok(found) => found,
            Err(failure) if failure.is_unknown_task() => return Ok(TaskState::default()),
            Err(failure) => return Err(failure),
        };
        let is_stopped = task.execution_status.is_stopped();
        let status = Some(format!("{:?} {}", task.execution_status, task.updated_at));
        let seen = self.seen.as_ref().filter(|seen| seen.status == status);
        let files = match seen {
            _ if !watches_files => None,
            // No command runs, so the files are unchanged.
            Some(TaskState { files, .. }) if files.is_some() && is_stopped => files.clone(),
            _ => content_id(&server, &task.workspace.working_dir).await?,
        };
        Ok(TaskState { status, files })
    }

    /// Returns the changed resources. Changes between a subscriber's last read and the first poll are
    /// not known, so the first poll counts as a change.
    fn changed(&mut self, now: TaskState, watched: &BTreeSet<String>) -> Vec<String> {
        let seen = self.seen.as_ref();
        let status = seen.is_none_or(|seen| seen.status != now.status);
        let files = seen.is_none_or(|seen| seen.files != now.files);
        self.seen = Some(now);
        let is_changed = |uri: &str| match part(uri) {
            Some(TaskPart::Task) => status || files,
            Some(TaskPart::Events) => status,
            Some(TaskPart::Diff) => files,
            None => false,
        };
        let changed = watched
            .iter()
            .filter(|uri| is_changed(uri) || !self.announced.contains(*uri));
        let changed: Vec<String> = changed.cloned().collect();
        self.announced.extend(changed.iter().cloned());
        changed
    }
}
