//! `get_task_result`

use std::time::Duration;

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use openhands_api::TaskId;
use schemars::JsonSchema;
use serde::Deserialize;

use tokio::time::Instant;

use crate::OpenHands;
use crate::task::{Report, TaskSnapshot};

/// The wait for the verify command.
const CHECK_WAIT: Duration = Duration::from_secs(10);

/// Returns the last message of a task's agent, the output of its last command and the files it
/// changed, also while it is running or after it failed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskResult {
    /// From run_task.
    pub(crate) task_id: TaskId,
}

impl Tool for GetTaskResult {
    const NAME: &'static str = "get_task_result";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let id = self.task_id;
        let read = async {
            let server = service.task_server(id, call).await?;
            let task = TaskSnapshot::read(&server, id).await?;
            Ok((server, task))
        };
        let (server, task) = match read.await {
            Ok(read) => read,
            Err(failure) => return Report::from_failure(id, failure),
        };
        let mut report = Report::from_snapshot(&task);
        report.add_results(&server, &task).await?;
        let until = Instant::now() + CHECK_WAIT;
        report.add_check(service, &server, &task, until).await?;
        Ok(report)
    }
}
