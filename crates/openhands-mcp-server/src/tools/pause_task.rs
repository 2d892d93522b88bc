//! `pause_task`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::cancel_task::StopResult;
use crate::OpenHands;
use crate::api::{Execution, TaskId};
use crate::task::{TaskSnapshot, TaskStatus};

/// Stops a task after its current step; resume_task continues it. To stop it at once, cancel_task.
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
    type Output = StopResult;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<StopResult, ToolError> {
        let task_id = self.task_id;
        let server = &service.task_server(task_id, call).await?;
        let is_running = server.conversation(task_id).await?.execution_status == Execution::Running;
        if is_running && let Err(failure) = server.pause(task_id).await {
            // The response comes at the end of the step. The pause takes effect without it.
            if !failure.is_timeout() {
                return Err(failure.into());
            }
        }
        let status = TaskSnapshot::read(server, task_id).await?.status();
        let message = match (is_running, status) {
            (true, TaskStatus::Running) => "It pauses when the current step has ended.",
            (true, TaskStatus::Paused) => "It is paused.",
            (true, _) => "It ended before it could be paused.",
            (false, _) => "It was not running; nothing was changed.",
        };
        Ok(StopResult {
            task_id,
            status,
            message,
        })
    }
}
