//! `get_task_result`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::OpenHands;
use crate::report::Report;
use crate::task::Task;
use crate::task_id::TaskId;

/// Returns what the agent of a task said last, what its last command printed and which files it
/// changed, also while it is still running or after it failed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskResult {
    /// From run_task.
    task_id: TaskId,
}

impl Tool for GetTaskResult {
    const NAME: &'static str = "get_task_result";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<Report, ToolError> {
        let id = self.task_id;
        let task = async { Task::read(&service.at(id).await?, id).await };
        let task = match task.await {
            Ok(task) => task,
            Err(failure) => return Report::unread(id, failure),
        };
        let mut report = Report::state(&task);
        service.bring(&task, &mut report).await?;
        Ok(report)
    }
}
