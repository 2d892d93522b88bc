//! Resources: the state, events and changes of a task, without a tool call.
//!
//! The content of a resource is the answer of a tool, so both have the same limits. Only tasks with subscribers are
//! polled, at intervals that grow while nothing happens.

use std::collections::BTreeSet;
use std::time::Duration;

use mcp_core::resource::{Resource, ResourceContents, ResourceSet};
use mcp_core::tool::{Call, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use upstream::poll::{self, Backoff, PollTarget};
use upstream::resource::from_tool;

use crate::OpenHands;
use crate::api::{ApiFailure, ApiResult, TaskId};
use crate::git::{ChangesQuery, content_id};
use crate::task::task_ids;
use crate::tools::{GetTaskEvents, GetTaskResult};
use crate::workspace::read_changes;

/// The prefix of the URIs of all resources.
const TASKS: &str = "openhands://tasks/";
const JSON: &str = "application/json";
/// The poll intervals of a task.
const POLL_BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(3));
/// Bytes of a diff. More than in a tool's answer, because a resource costs no tokens until it is read.
const MAX_DIFF: usize = 100_000;

/// All resource templates, in the order of the list.
pub(crate) fn all() -> ResourceSet<OpenHands> {
    ResourceSet::new()
        .with::<TaskResource>()
        .with::<EventsResource>()
        .with::<DiffResource>()
}

/// One task: its status, the last message of its agent, its changed files.
#[derive(Deserialize, JsonSchema)]
struct TaskResource {
    id: TaskId,
}

impl Resource for TaskResource {
    const URI: &'static str = "openhands://tasks/{id}";
    const NAME: &'static str = "Task";
    const MIME_TYPE: &'static str = JSON;
    type Service = OpenHands;

    async fn read(self, service: &OpenHands, call: &Call) -> Result<ResourceContents, ToolError> {
        from_tool(GetTaskResult::of_resource(self.id), service, call).await
    }

    async fn complete(service: &OpenHands, _: &str, value: &str) -> Vec<String> {
        task_ids(&service.servers, value).await
    }
}

/// The events of a task, oldest first, one line each.
#[derive(Deserialize, JsonSchema)]
struct EventsResource {
    id: TaskId,
}

impl Resource for EventsResource {
    const URI: &'static str = "openhands://tasks/{id}/events";
    const NAME: &'static str = "Events of a task";
    const MIME_TYPE: &'static str = JSON;
    type Service = OpenHands;

    async fn read(self, service: &OpenHands, call: &Call) -> Result<ResourceContents, ToolError> {
        from_tool(GetTaskEvents::all(self.id), service, call).await
    }

    async fn complete(service: &OpenHands, _: &str, value: &str) -> Vec<String> {
        task_ids(&service.servers, value).await
    }
}

/// The changes in a task's directory since it started, as a diff of at most 100 KB.
#[derive(Deserialize, JsonSchema)]
struct DiffResource {
    id: TaskId,
}

impl Resource for DiffResource {
    const URI: &'static str = "openhands://tasks/{id}/diff";
    const NAME: &'static str = "Changes of a task";
    const MIME_TYPE: &'static str = "text/x-diff";
    type Service = OpenHands;

    async fn read(self, service: &OpenHands, call: &Call) -> Result<ResourceContents, ToolError> {
        let server = service.task_server(self.id, call).await?;
        let task = server.conversation(self.id).await?;
        let query = ChangesQuery {
            length: MAX_DIFF,
            ..ChangesQuery::default()
        };
        let changes = read_changes(&server, &task, &query).await?;
        Ok(ResourceContents::Text(changes.diff_text().0))
    }

    async fn complete(service: &OpenHands, _: &str, value: &str) -> Vec<String> {
        task_ids(&service.servers, value).await
    }
}

/// A task with subscribers.
struct WatchedTask<'a> {
    service: &'a OpenHands,
    id: TaskId,
    /// The state, the time of the last event and the content of the directory at the last poll.
    seen: Option<String>,
    /// The resources that were announced since their subscription.
    announced: BTreeSet<String>,
}

/// Announces changes for as long as the server runs.
pub(crate) async fn announce_changes(service: &OpenHands) {
    let task = |uri: &str| {
        let id = uri.strip_prefix(TASKS)?.split('/').next()?;
        TaskId::try_from(id.to_owned()).ok()
    };
    let open = |id: &TaskId| WatchedTask {
        service,
        id: *id,
        seen: None,
        announced: BTreeSet::new(),
    };
    poll::watch(&service.changes, task, open).await;
}

impl PollTarget for WatchedTask<'_> {
    /// Each change is one of all resources of the task. Changes between a subscriber's last read and the first poll are
    /// not known, so the first poll counts as a change.
    async fn poll(&mut self, watched: &BTreeSet<String>) -> Vec<String> {
        let watches_files = watched.iter().any(|uri| uri.ends_with("/diff"));
        match self.read(watches_files).await {
            Ok(now) if self.seen.as_ref() != Some(&now) => {
                self.seen = Some(now);
                self.announced.clear();
            }
            Ok(_) => {}
            // The next poll will find any change.
            Err(failure) => {
                tracing::debug!(task = %self.id, ?failure, "cannot poll the task");
                return Vec::new();
            }
        }
        let changed = watched.difference(&self.announced).cloned().collect();
        self.announced.clone_from(watched);
        changed
    }

    fn backoff(&self) -> Backoff {
        POLL_BACKOFF
    }
}

impl WatchedTask<'_> {
    async fn read(&self, watches_files: bool) -> ApiResult<String> {
        let found = async {
            let server = self.service.servers.for_task(self.id).await?;
            let task = server.conversation(self.id).await?;
            Ok::<_, ApiFailure>((server, task))
        };
        let (server, task) = match found.await {
            Err(failure) if failure.is_unknown_task() => return Ok("deleted".to_owned()),
            found => found?,
        };
        let mut now = format!("{:?} {}", task.execution_status, task.updated_at);
        // A command that runs changes files without an event.
        if watches_files && !task.execution_status.is_stopped() {
            let directory = &task.workspace.working_dir;
            now += &content_id(&server, directory).await?.unwrap_or_default();
        }
        Ok(now)
    }
}
