//! Resources: the state, events and changes of a task, without a tool call.
//!
//! The content of a resource is the answer of a tool, so both have the same limits. `subscriptions`
//! announces changes.

mod subscriptions;
mod uri;

use mcp_core::resource::{Resource, ResourceContents, ResourceSet};
use mcp_core::tool::{Call, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use upstream::resource::from_tool;

use crate::OpenHands;
use crate::api::TaskId;
use crate::git::{ChangesQuery, DiffText};
use crate::task::completion::task_ids;
use crate::tools::{GetTaskEvents, GetTaskResult};
use crate::workspace::read_changes;

pub(crate) use subscriptions::announce_changes;

const JSON: &str = "application/json";
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
        let diff = DiffText::new(&changes, 0, MAX_DIFF);
        Ok(ResourceContents::Text(diff.text))
    }

    async fn complete(service: &OpenHands, _: &str, value: &str) -> Vec<String> {
        task_ids(&service.servers, value).await
    }
}
