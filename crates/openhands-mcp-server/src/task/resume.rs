//! Resuming a task, with or without a message to its agent.

use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};

use super::sandbox;
use crate::OpenHands;
use crate::api::{AgentServer, Execution, Failure, TaskId};
use crate::tags::ConversationTags;

/// Looks at a task that was told to run, and the time between them.
const MAX_START_POLLS: u32 = 20;
const START_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Tells the agent of a task something, if there is something to tell, and lets it go on. Where all
/// slots are taken, the task is queued.
///
/// # Errors
/// The state of the task does not allow it: says what does.
pub(crate) async fn resume(
    service: &OpenHands,
    id: TaskId,
    message: Option<&str>,
) -> Result<(), ToolError> {
    let server = &sandbox::wake(&service.servers, id).await?;
    let task = server.conversation(id).await?;
    let execution = task.execution_status;
    match (execution, message) {
        // Resuming would approve the pending action.
        (Execution::WaitingForConfirmation, _) => {
            return Err(conflict(
                "The agent waits for a permission: answer with respond_confirmation first.",
            ));
        }
        (Execution::Deleting, _) => return Err(conflict("The task is being deleted.")),
        // It reads the message before its next step.
        (Execution::Running, Some(message)) => {
            return match server.prompt(id, message, true).await {
                // It is taken when the step under way has ended.
                Err(failure) if failure.is_slow() => Ok(()),
                told => Ok(told?),
            };
        }
        (Execution::Running, None) => return Ok(()),
        (Execution::Finished, None) => {
            return Err(conflict(
                "The task is finished: tell it what else to do with send_message.",
            ));
        }
        _ => {}
    }
    if let Some(message) = message {
        server.prompt(id, message, false).await?;
    }
    let mut tags = ConversationTags::new(task.tags);
    let runs = service.scheduler.run_or_wait(server, id, &mut tags).await;
    if runs.map_err(wedged)? {
        wait_for_start(server, id, execution).await;
    } else {
        service.scheduler.enqueue(id);
    }
    Ok(())
}

/// Waits a moment until a task that was told to run has left the state that it stood in.
async fn wait_for_start(server: &AgentServer, id: TaskId, before: Execution) {
    for _ in 0..MAX_START_POLLS {
        let now = server.conversation(id).await;
        if now.is_ok_and(|task| task.execution_status != before) {
            return;
        }
        tokio::time::sleep(START_POLL_INTERVAL).await;
    }
}

/// The agent server says that it runs although its state says that it does not.
fn wedged(failure: Failure) -> ToolError {
    let conflict = failure.is_conflict();
    let error = ToolError::from(failure);
    if !conflict {
        return error;
    }
    ToolError::new(
        ToolErrorKind::Conflict,
        "The task is wedged: the agent server neither runs it nor lets it run. Try again in half a \
         minute; if it stays so, go on in a copy (fork_task), or delete_task and run it again.",
    )
    .caused_by(error)
}

fn conflict(message: &str) -> ToolError {
    ToolError::new(ToolErrorKind::Conflict, message)
}
