//! Completion of task ids.

use crate::OpenHands;
use crate::api::{Backend, Failure, TaskId};

/// Tasks among which ids are completed: the agent server takes 10 ms for each.
const RECENT: u32 = 30;

/// Returns the ids of the newest tasks that begin with `value`.
pub(crate) async fn task_ids(service: &OpenHands, value: &str) -> Vec<String> {
    let newest = newest(service).await.unwrap_or_default();
    let ids = newest.into_iter().map(|id| id.to_string());
    ids.filter(|id| id.starts_with(value)).collect()
}

async fn newest(service: &OpenHands) -> Result<Vec<TaskId>, Failure> {
    Ok(match service.servers.backend().await? {
        Backend::App(app) => {
            let page = app.conversations(RECENT, None).await?;
            page.items.into_iter().map(|task| task.id).collect()
        }
        Backend::Agent(server) => {
            let page = server.conversations(None, RECENT, None).await?;
            page.items.into_iter().map(|task| task.id).collect()
        }
    })
}
