//! Resources: tasks that can be looked at, and watched, without a call of a tool.
//!
//! A resource holds what the tool of the same subject answers, so it is bounded in one place.
//! `subscriptions` tells when one has changed.

mod subscriptions;
mod uri;

use mcp_core::resource::{Resource, ResourceContents, ResourceSet};
use mcp_core::tool::{Call, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use upstream::resource::from_tool;

use crate::OpenHands;
use crate::api::TaskId;
use crate::task::completion::task_ids;
use crate::tools::{GetTaskEvents, GetTaskResult};
use crate::workspace::changes;

pub(crate) use subscriptions::announce_changes;

const JSON: &str = "application/json";
/// Bytes of a diff: more than a tool's answer, because nobody pays for a resource unread.
const MAX_DIFF: usize = 100_000;

/// All templates, in the order in which they are listed.
pub(crate) fn all() -> ResourceSet<OpenHands> {
    ResourceSet::new()
        .with::<State>()
        .with::<Events>()
        .with::<Diff>()
}

/// One task: its status, what the agent said, what it changed.
#[derive(Deserialize, JsonSchema)]
struct State {
    id: TaskId,
}

impl Resource for State {
    const URI: &'static str = "openhands://tasks/{id}";
    const NAME: &'static str = "Task";
    const MIME_TYPE: &'static str = JSON;
    type Service = OpenHands;

    async fn read(self, service: &OpenHands, call: &Call) -> Result<ResourceContents, ToolError> {
        from_tool(GetTaskResult { task_id: self.id }, service, call).await
    }

    async fn complete(service: &OpenHands, _: &str, value: &str) -> Vec<String> {
        task_ids(service, value).await
    }
}

/// What happened in a task, oldest first, an event in one line.
#[derive(Deserialize, JsonSchema)]
struct Events {
    id: TaskId,
}

impl Resource for Events {
    const URI: &'static str = "openhands://tasks/{id}/events";
    const NAME: &'static str = "Events of a task";
    const MIME_TYPE: &'static str = JSON;
    type Service = OpenHands;

    async fn read(self, service: &OpenHands, call: &Call) -> Result<ResourceContents, ToolError> {
        from_tool(GetTaskEvents::all(self.id), service, call).await
    }

    async fn complete(service: &OpenHands, _: &str, value: &str) -> Vec<String> {
        task_ids(service, value).await
    }
}

/// What a task changed in its directory since it began, as git writes it; at most 100 KB.
#[derive(Deserialize, JsonSchema)]
struct Diff {
    id: TaskId,
}

impl Resource for Diff {
    const URI: &'static str = "openhands://tasks/{id}/diff";
    const NAME: &'static str = "Changes of a task";
    const MIME_TYPE: &'static str = "text/x-diff";
    type Service = OpenHands;

    async fn read(self, service: &OpenHands, _: &Call) -> Result<ResourceContents, ToolError> {
        let server = service.servers.at(self.id).await?;
        let task = server.conversation(self.id).await?;
        let diff = changes::diff(&server, &task, None, MAX_DIFF).await?;
        Ok(ResourceContents::Text(diff.text))
    }

    async fn complete(service: &OpenHands, _: &str, value: &str) -> Vec<String> {
        task_ids(service, value).await
    }
}
