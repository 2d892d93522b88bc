//! `get_task_status`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::OpenHands;
use crate::api::TaskId;
use crate::task::{Report, ShortReport, TaskSnapshot};

/// Returns the state of a task: queued, running, finished, failed (and why), waiting for a user.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskStatus {
    /// From run_task.
    task_id: TaskId,
}

impl Tool for GetTaskStatus {
    const NAME: &'static str = "get_task_status";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = ShortReport;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<ShortReport, ToolError> {
        let id = self.task_id;
        let task = async {
            let server = service.task_server(id, call).await?;
            let task = TaskSnapshot::read(&server, id).await?;
            Ok((task, server.known_version().await?))
        };
        match task.await {
            Ok((task, version)) => {
                if task.needs_run {
                    service.runner.begin_later(id);
                }
                let mut report = Report::from_snapshot(&task);
                report.warnings.extend(version.warning());
                service.ended.record(id, task.last_state());
                Ok(ShortReport(report))
            }
            Err(failure) => Report::from_failure(id, failure).map(ShortReport),
        }
    }
}
