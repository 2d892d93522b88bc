//! `get_task_result`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OpenHands;
use crate::status::TaskStatus;
use crate::task::Task;
use crate::task_id::TaskId;

/// Returns what the agent of a task said last and what its last command printed, also while it is
/// still running or after it failed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskResult {
    /// From run_task.
    task_id: TaskId,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct TaskResult {
    task_id: TaskId,
    /// Only finished makes the result the final one.
    status: TaskStatus,
    /// What the agent said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    /// What its last command printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_output: Option<String>,
    /// Why it is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'static str>,
}

impl Tool for GetTaskResult {
    const NAME: &'static str = "get_task_result";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = TaskResult;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<TaskResult, ToolError> {
        let task = Task::read(&service.server, self.task_id).await?;
        let outcome = task.outcome(&service.server).await?;
        Ok(TaskResult {
            task_id: task.id,
            status: task.status(),
            result: outcome.result,
            last_output: outcome.last_output,
            error: task.verdict.error,
            next: task.verdict.next,
        })
    }
}
