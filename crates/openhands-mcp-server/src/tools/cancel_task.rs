//! `cancel_task`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OpenHands;
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
        let before = Task::read(server, task_id, None).await?;
        let said = |status, message| Cancellation {
            task_id,
            status,
            message,
        };
        match before.status() {
            TaskStatus::Running | TaskStatus::Unknown => server.interrupt(task_id).await?,
            // An interrupt does not end the agent's question.
            TaskStatus::WaitingForConfirmation => server.refuse(task_id).await?,
            TaskStatus::Idle | TaskStatus::Paused => {
                return Ok(said(
                    before.status(),
                    "It was not running; nothing was changed.",
                ));
            }
            ended => return Ok(said(ended, "It had already ended; nothing was changed.")),
        }
        let after = Task::read(server, task_id, Some(&before)).await?;
        let message = match after.status() {
            TaskStatus::Running => "It was told to stop and is still doing so.",
            TaskStatus::Finished => "It ended before it could be stopped.",
            _ => "It was stopped.",
        };
        Ok(said(after.status(), message))
    }
}
