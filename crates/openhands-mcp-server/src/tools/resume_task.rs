//! `resume_task`

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::wait::{TaskWait, WaitFor, WaitSeconds};
use crate::OpenHands;
use crate::api::TaskId;
use crate::budget::BudgetRequest;
use crate::task::{Continuation, ShortReport, resume};

/// Resumes a task that was paused or cancelled or has failed; returns as run_task. Its limits are
/// those of the whole task: raise the one that it has reached.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeTask {
    /// From run_task.
    task_id: TaskId,
    /// Seconds to wait for the end; default 20.
    wait_seconds: Option<WaitSeconds>,
    /// New limit, if higher.
    max_iterations: Option<Bounded<1, 100_000>>,
    /// New limit, if higher.
    max_seconds: Option<Bounded<1, 604_800>>,
    /// New limit in US dollars, if higher.
    max_cost: Option<f64>,
    /// As in run_task.
    callback_url: Option<String>,
}

impl Tool for ResumeTask {
    const NAME: &'static str = "resume_task";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = ShortReport;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<ShortReport, ToolError> {
        let (id, wait) = (self.task_id, WaitFor::new(self.wait_seconds, service));
        let raised = BudgetRequest {
            iterations: self.max_iterations.map(Bounded::get),
            seconds: self.max_seconds.map(|seconds| seconds.get().into()),
            cost: self.max_cost,
        };
        service.check_owner(id, call).await?;
        let with = Continuation {
            raised,
            callback: service
                .callbacks
                .check_given(self.callback_url.as_deref())?,
            message: None,
        };
        resume(service, id, &with, wait.slot_by()).await?;
        TaskWait::new(service, id, wait, call)
            .follow()
            .await
            .map(ShortReport)
    }
}
