//! What can be looked at, and watched, without a call of a tool.
//!
//! A resource holds what the tool of the same subject answers, so it is bounded in one place. `live`
//! tells when one has changed.

mod live;
mod uri;

use mcp_core::resource::{Contents, Resource, ResourceSet};
use mcp_core::tool::{Call, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::OpenHands;
use crate::api::Failure;
use crate::task_id::TaskId;
use crate::tools::{GetTaskEvents, GetTaskResult};

const JSON: &str = "application/json";
/// Bytes of a diff: more than a tool's answer, because nobody pays for a resource unread.
const MAX_DIFF: usize = 100_000;
/// Tasks among which ids are completed: the agent server takes 10 ms for each.
const RECENT: u32 = 30;

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

    async fn read(self, service: &OpenHands, call: &Call) -> Result<Contents, ToolError> {
        answer::<GetTaskResult>(self.id, service, call).await
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

    async fn read(self, service: &OpenHands, call: &Call) -> Result<Contents, ToolError> {
        answer::<GetTaskEvents>(self.id, service, call).await
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

    async fn read(self, service: &OpenHands, _: &Call) -> Result<Contents, ToolError> {
        let task = service.at(self.id).await?.conversation(self.id).await?;
        let (diff, _) = service.diff(self.id, &task, None, MAX_DIFF).await?;
        Ok(Contents::Text(diff))
    }

    async fn complete(service: &OpenHands, _: &str, value: &str) -> Vec<String> {
        task_ids(service, value).await
    }
}

/// What the tool `T` answers for this task.
async fn answer<T>(id: TaskId, service: &OpenHands, call: &Call) -> Result<Contents, ToolError>
where
    T: Tool<Service = OpenHands, Output: Serialize>,
{
    let tool: T = serde_json::from_value(json!({"task_id": id}))
        .map_err(|error| ToolError::invalid_argument(error.to_string()))?;
    let answer = tool.call(service, call).await?;
    let text = serde_json::to_string(&answer)
        .map_err(|error| ToolError::upstream("The answer cannot be written.").caused_by(error))?;
    Ok(Contents::Text(text))
}

/// The ids of the newest tasks that begin with `value`.
pub(crate) async fn task_ids(service: &OpenHands, value: &str) -> Vec<String> {
    let newest = newest(service).await.unwrap_or_default();
    let ids = newest.into_iter().map(|id| id.to_string());
    ids.filter(|id| id.starts_with(value)).collect()
}

async fn newest(service: &OpenHands) -> Result<Vec<TaskId>, Failure> {
    Ok(match service.servers.app().await? {
        Some(app) => {
            let page = app.conversations(RECENT, None).await?;
            page.items.into_iter().map(|task| task.id).collect()
        }
        None => {
            let server = service.agent_server().await?;
            let page = server.conversations(None, RECENT, None).await?;
            page.items.into_iter().map(|task| task.id).collect()
        }
    })
}
