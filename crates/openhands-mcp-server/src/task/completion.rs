//! Completion of task ids.

use crate::api::{ApiResult, Backend, Servers, TaskId};
use crate::tags::ConversationTags;

/// The newest tasks, whose ids are completed: the agent server takes 10 ms for each.
const MAX_COMPLETED_TASKS: u32 = 30;

/// Returns the ids of the newest tasks that begin with `value`.
pub(crate) async fn task_ids(servers: &Servers, value: &str) -> Vec<String> {
    let newest = newest(servers).await.unwrap_or_default();
    let ids = newest.into_iter().map(|id| id.to_string());
    ids.filter(|id| id.starts_with(value)).collect()
}

async fn newest(servers: &Servers) -> ApiResult<Vec<TaskId>> {
    Ok(match servers.backend().await? {
        Backend::App(app) => {
            let page = app.conversations(MAX_COMPLETED_TASKS, None).await?;
            page.items.into_iter().map(|task| task.id).collect()
        }
        Backend::Agent(server) => {
            let page = server
                .conversations(None, MAX_COMPLETED_TASKS, None)
                .await?;
            // It is not known who asks, so the ids of principals' tasks are not shown.
            let tasks = page.items.into_iter();
            let tasks = tasks.filter(|task| ConversationTags::is_unowned(&task.tags));
            tasks.map(|task| task.id).collect()
        }
    })
}
