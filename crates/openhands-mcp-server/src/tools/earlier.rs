//! The tasks of OpenHands that a task of the protocol works on, as its id names them.
//!
//! A reference has a part for each: the id of one that is known before the call starts, or `n` for a new one,
//! whose id follows from the digits of the protocol's task.

use futures_util::future::try_join_all;
use mcp_core::tool::{Call, EarlierTask, ToolError};

use crate::OpenHands;
use crate::api::TaskId;

/// Tasks of one call.
pub(super) const MAX_TASKS: usize = 20;
/// The part for a new task.
const NEW: &str = "n";

/// The reference for these tasks; `None` for a new one.
pub(super) fn reference(tasks: impl IntoIterator<Item = Option<TaskId>>) -> String {
    let part = |id: Option<TaskId>| id.map_or(NEW.to_owned(), |id| id.to_string().replace('-', ""));
    let parts: Vec<String> = tasks.into_iter().map(part).collect();
    parts.join("-")
}

/// The id of the new task number `at` of a call that is, or may become, a task of the protocol; `None` for
/// other calls.
pub(super) fn new_id(call: &Call, at: usize) -> Option<TaskId> {
    let digits = call.client().task_id.as_deref()?;
    Some(id_of(digits, at))
}

fn id_of(digits: &str, at: usize) -> TaskId {
    TaskId::from_key(&format!("{digits}/{at}"))
}

/// The tasks with this reference; `None` for one that does not exist, or is another principal's.
///
/// # Errors
/// OpenHands does not answer, or there is none of them.
pub(super) async fn all(
    service: &OpenHands,
    task: EarlierTask<'_>,
    call: &Call,
) -> Result<Vec<Option<TaskId>>, ToolError> {
    // Anybody can name a task, and each part costs requests.
    let parts = task.reference.split('-');
    if parts.clone().count() > MAX_TASKS {
        return Err(absent());
    }
    let ids = parts.enumerate().map(|(at, part)| match part {
        NEW => Some(id_of(task.digits, at)),
        id => TaskId::try_from(id.to_owned()).ok(),
    });
    let found = try_join_all(ids.map(async |id| match id {
        Some(id) => Ok(exists(service, id, call).await?.then_some(id)),
        None => Ok::<_, ToolError>(None),
    }));
    let found = found.await?;
    match found.iter().any(Option::is_some) {
        true => Ok(found),
        false => Err(absent()),
    }
}

fn absent() -> ToolError {
    ToolError::not_found("The task does not exist.")
}

/// The only task with this reference.
pub(super) async fn one(
    service: &OpenHands,
    task: EarlierTask<'_>,
    call: &Call,
) -> Result<TaskId, ToolError> {
    if task.reference.contains('-') {
        return Err(absent());
    }
    let found = all(service, task, call).await?;
    found.into_iter().flatten().next().ok_or_else(absent)
}

async fn exists(service: &OpenHands, id: TaskId, call: &Call) -> Result<bool, ToolError> {
    let read = async {
        let server = service.task_server(id, call).await?;
        server.conversation(id).await
    };
    match read.await {
        Ok(_) => Ok(true),
        Err(failure) if failure.is_unknown_task() => Ok(false),
        // Its sandbox does not run, or not yet.
        Err(failure) if failure.sandbox_problem().is_some() => Ok(true),
        Err(failure) => Err(failure.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_names_tasks_in_order() {
        let known = TaskId::from_key("k");
        let text = reference([None, Some(known), None]);
        let plain = known.to_string().replace('-', "");
        assert_eq!(text, format!("n-{plain}-n"));
        assert_ne!(id_of("a", 0), id_of("a", 1));
    }
}
