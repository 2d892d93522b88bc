//! `cancel_task`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OpenHands;
use crate::api::{Execution, Failure};
use crate::status::TaskStatus;
use crate::task::Task;
use crate::task_id::TaskId;

/// Stops a task at once, with the command that it runs. What it has done stays.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelTask {
    /// From run_task.
    task_id: TaskId,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Cancellation {
    task_id: TaskId,
    status: TaskStatus,
    /// Whether this call stopped it.
    message: &'static str,
}

impl Tool for CancelTask {
    const NAME: &'static str = "cancel_task";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = OpenHands;
    type Output = Cancellation;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<Cancellation, ToolError> {
        let task_id = self.task_id;
        let server = &service.server;
        match server.conversation(task_id).await?.execution_status {
            Execution::Running | Execution::Idle | Execution::Unknown => {
                server.interrupt(task_id).await.map_err(unconfirmed)?;
            }
            // An interrupt does not end the agent's question.
            Execution::WaitingForConfirmation => server.refuse(task_id).await?,
            _ => {
                return Ok(Cancellation {
                    task_id,
                    status: Task::read(server, task_id).await?.status(),
                    message: "It was not running any more; nothing was changed.",
                });
            }
        }
        let after = Task::read(server, task_id).await?;
        let message = match after.status() {
            TaskStatus::Running => "It was told to stop and is still doing so.",
            TaskStatus::Finished => "It ended before it could be stopped.",
            _ => "It was stopped.",
        };
        Ok(Cancellation {
            task_id,
            status: after.status(),
            message,
        })
    }
}

/// An agent server that is interrupted in the moment in which a command starts answers nobody for
/// up to half a minute.
fn unconfirmed(failure: Failure) -> ToolError {
    let ambiguous = failure.is_ambiguous();
    let error = ToolError::from(failure);
    if !ambiguous {
        return error;
    }
    ToolError::new(
        error.kind(),
        "The agent server was told to stop the task but has not confirmed it. Ask get_task_status \
         in half a minute; if it still runs, call cancel_task again.",
    )
    .caused_by(error)
}
