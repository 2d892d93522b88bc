//! Announcing changes of the tasks that somebody watches.
//!
//! Only tasks that somebody watches are looked at, by asking the agent server's REST API: what it
//! says there holds, whatever connection was lost in between. They are looked at when something is
//! heard of them, and now and then: the longer nothing happens, the less often.

use std::collections::BTreeSet;
use std::time::Duration;

use upstream::poll::{self, Backoff, PollTarget};

use super::uri::{self, Part};
use crate::OpenHands;
use crate::api::{Failure, TaskId};
use crate::events::Listener;
use crate::workspace::changes;

/// Between two looks at a task.
const POLL: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(3));
/// The same while all that happens in it is heard; that it is deleted is not. From the shortest
/// delay to the longest at once.
const LISTENING_POLL: Backoff =
    Backoff::new(Duration::from_millis(500), Duration::from_secs(10)).with_factor(20.0);

/// A task that somebody watches.
struct WatchedTask<'a> {
    service: &'a OpenHands,
    id: TaskId,
    /// How it was when it was last seen; `None` before.
    seen: Option<TaskState>,
    /// The resources of which a change was announced since they are watched.
    announced: BTreeSet<String>,
    /// Hears when something happens in it.
    listener: Listener,
}

/// The facts about a task that differ once something has happened in it.
#[derive(Default, PartialEq)]
struct TaskState {
    /// Its status and when something last happened; `None` where there is no such task.
    status: Option<String>,
    /// Its files, as an id of git's; only where somebody watches them.
    files: Option<String>,
    /// They may change without an event: a command runs.
    silently: bool,
}

/// Announces changes for as long as the server runs.
pub(crate) async fn announce_changes(service: &OpenHands) {
    let task = |uri: &str| uri::read(uri).map(|(id, _)| id);
    let open = |id: &TaskId| WatchedTask {
        service,
        id: *id,
        seen: None,
        announced: BTreeSet::new(),
        listener: service.listeners.listen(*id),
    };
    poll::watch(&service.changes, task, open).await;
}

impl PollTarget for WatchedTask<'_> {
    async fn poll(&mut self, watched: &BTreeSet<String>) -> Vec<String> {
        self.announced.retain(|uri| watched.contains(uri));
        let watches_files = watched.iter().any(|uri| part(uri) == Some(Part::Diff));
        match self.read(watches_files).await {
            Ok(now) => self.changed(now, watched),
            // It is not known whether something has happened; the next look tells.
            Err(failure) => {
                tracing::debug!(task = %self.id, ?failure, "cannot look at the task");
                Vec::new()
            }
        }
    }

    fn backoff(&self) -> Backoff {
        let silently = self.seen.as_ref().is_some_and(|seen| seen.silently);
        match self.listener.is_open() && !silently {
            true => LISTENING_POLL,
            false => POLL,
        }
    }

    async fn wait_for_event(&mut self) {
        self.listener.changed().await;
    }
}

fn part(uri: &str) -> Option<Part> {
    uri::read(uri).map(|(_, part)| part)
}

impl WatchedTask<'_> {
    async fn read(&self, watches_files: bool) -> Result<TaskState, Failure> {
        let found = async {
            let server = self.service.servers.at(self.id).await?;
            let task = server.conversation(self.id).await?;
            Ok::<_, Failure>((server, task))
        };
        let (server, task) = match found.await {
            Ok(found) => found,
            Err(failure) if failure.is_no_task() => return Ok(TaskState::default()),
            Err(failure) => return Err(failure),
        };
        let is_still = task.execution_status.is_still();
        let status = Some(format!("{:?} {}", task.execution_status, task.updated_at));
        let seen = self.seen.as_ref().filter(|seen| seen.status == status);
        let files = match seen {
            _ if !watches_files => None,
            // No command runs in it.
            Some(TaskState { files, .. }) if files.is_some() && is_still => files.clone(),
            _ => changes::tree(&server, &task).await?,
        };
        Ok(TaskState {
            status,
            files,
            silently: watches_files && !is_still,
        })
    }

    /// Returns the resources that are not as they were. What happened between the last read of those
    /// who watch and the first look for them is not known, so a resource counts as changed then.
    fn changed(&mut self, now: TaskState, watched: &BTreeSet<String>) -> Vec<String> {
        let seen = self.seen.as_ref();
        let status = seen.is_none_or(|seen| seen.status != now.status);
        let files = seen.is_none_or(|seen| seen.files != now.files);
        self.seen = Some(now);
        let is_changed = |uri: &str| match part(uri) {
            Some(Part::Task) => status || files,
            Some(Part::Events) => status,
            Some(Part::Diff) => files,
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
