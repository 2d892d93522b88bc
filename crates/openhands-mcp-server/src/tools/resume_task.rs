//! `resume_task`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::wait::{TaskWait, WaitFor, WaitSeconds};
use crate::OpenHands;
use crate::api::TaskId;
use crate::task::{Report, resume};

/// Resumes a task that was paused or cancelled or has failed, with a new budget of steps and time;
/// returns as run_task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeTask {
    /// From run_task.
    task_id: TaskId,
    /// Seconds to wait for the end; default 20.
    wait_seconds: Option<WaitSeconds>,
}

impl Tool for ResumeTask {
    const NAME: &'static str = "resume_task";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let (id, wait) = (self.task_id, WaitFor::new(self.wait_seconds));
        resume(&service.servers, &service.scheduler, id, None).await?;
        TaskWait::new(service, id, wait, call).follow().await
    }
}
