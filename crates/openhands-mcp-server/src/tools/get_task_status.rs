//! `get_task_status`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OpenHands;
use crate::status::TaskStatus;
use crate::task::Task;
use crate::task_id::TaskId;

/// Says what a task is doing: running, finished, failed (and why), waiting for somebody.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskStatus {
    /// From run_task.
    task_id: TaskId,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct TaskState {
    task_id: TaskId,
    status: TaskStatus,
    /// Actions taken so far.
    steps: u64,
    /// What the agent did last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_action: Option<String>,
    /// Why it is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'static str>,
}

impl Tool for GetTaskStatus {
    const NAME: &'static str = "get_task_status";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = TaskState;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<TaskState, ToolError> {
        let task = Task::read(&service.server, self.task_id).await?;
        Ok(TaskState {
            task_id: task.id,
            status: task.status(),
            steps: task.steps,
            last_action: task.last_action(),
            error: task.verdict.error,
            next: task.verdict.next,
        })
    }
}
