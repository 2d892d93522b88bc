//! Letting a task go on that stands still, with or without a word to it.

use mcp_core::tool::{ToolError, ToolErrorKind};

use crate::OpenHands;
use crate::api::{Execution, Failure};
use crate::task_id::TaskId;

impl OpenHands {
    /// Tells the agent of a task something, if there is something to tell, and lets it go on. Where
    /// there is no room for it, it waits in line.
    ///
    /// # Errors
    /// The state of the task does not allow it: says what does.
    pub(crate) async fn go_on(&self, id: TaskId, message: Option<&str>) -> Result<(), ToolError> {
        let server = self.awake(id).await?;
        let task = server.conversation(id).await?;
        let execution = task.execution_status;
        match (execution, message) {
            // To let it run would be to agree.
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
        let mut notes = task.notes;
        if self.run_or_wait(id, &mut notes).await.map_err(wedged)? {
            self.leave_state(id, execution).await;
            return Ok(());
        }
        self.line.join(id);
        Ok(())
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
