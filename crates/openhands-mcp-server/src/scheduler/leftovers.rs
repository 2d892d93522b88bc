//! Actions that a stopped task has not taken: no user has allowed them, or its run was cut off.

use crate::api::{AgentServer, ApiResult, TaskId};

/// Refuses the actions of a stopped task that have no result: the next run would take them, although no user has
/// allowed them. Returns false if the task does not stand still, so that it must not be run.
pub(crate) async fn refuse_leftovers(
    server: &AgentServer,
    id: TaskId,
    reason: &str,
) -> ApiResult<bool> {
    if server.pending_actions(id).await?.is_empty() {
        return Ok(true);
    }
    // Those of an agent at work are being taken, and those of one that asks are answered by its user.
    if !is_stopped(server, id).await? {
        return Ok(false);
    }
    tracing::info!(task = %id, "actions that nobody has allowed are refused");
    server.respond(id, false, reason).await?;
    Ok(server.pending_actions(id).await?.is_empty() && is_stopped(server, id).await?)
}

async fn is_stopped(server: &AgentServer, id: TaskId) -> ApiResult<bool> {
    let execution = server.conversation(id).await?.execution_status;
    Ok(execution.is_stopped())
}
