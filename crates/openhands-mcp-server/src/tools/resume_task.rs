//! `resume_task`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{Patience, Wait};
use crate::OpenHands;
use crate::report::Report;
use crate::task_id::TaskId;

/// Lets a task go on that was paused, cancelled or has failed, with its budget of steps and time
/// anew; returns as run_task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeTask {
    /// From run_task.
    task_id: TaskId,
    /// How long to wait for the end; default 20.
    wait_seconds: Option<Wait>,
}

impl Tool for ResumeTask {
    const NAME: &'static str = "resume_task";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let id = self.task_id;
        let patience = Patience::of(self.wait_seconds);
        service.go_on(id, None).await?;
        let seen = service.follow(id, patience.until, call).await?;
        Ok(service.report(id, seen, patience.answer_by).await)
    }
}
