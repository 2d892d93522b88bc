//! `pause_task`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::cancel_task::Stopping;
use crate::OpenHands;
use crate::api::{Execution, TaskId};
use crate::task::{TaskSnapshot, TaskStatus};

/// Stops a task after the step under way; resume_task lets it go on. To stop it at once, cancel_task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseTask {
    /// From run_task.
    task_id: TaskId,
}

impl Tool for PauseTask {
    const NAME: &'static str = "pause_task";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = OpenHands;
    type Output = Stopping;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<Stopping, ToolError> {
        let task_id = self.task_id;
        let server = &service.servers.at(task_id).await?;
        let told = server.conversation(task_id).await?.execution_status == Execution::Running;
        if told && let Err(failure) = server.pause(task_id).await {
            // It answers when the step has ended; until then there is nothing more to say.
            if !failure.is_slow() {
                return Err(failure.into());
            }
        }
        let status = TaskSnapshot::read(server, task_id).await?.status();
        let message = match (told, status) {
            (true, TaskStatus::Running) => "It pauses when the step under way has ended.",
            (true, TaskStatus::Paused) => "It is paused.",
            (true, _) => "It ended before it could be paused.",
            (false, _) => "It was not running; nothing was changed.",
        };
        Ok(Stopping {
            task_id,
            status,
            message,
        })
    }
}
