//! `wait_task`

use mcp_core::tool::{Call, EarlierTask, Effect, TaskSupport, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::earlier;
use super::wait::{TaskWait, WaitFor, WaitSeconds};
use crate::OpenHands;
use crate::api::TaskId;
use crate::task::{ObservedTask, Report};

/// Waits up to wait_seconds until a task ends, asks or stops. Returns as get_task_result.
/// Cancelling it stops no task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitTask {
    /// From run_task.
    task_id: TaskId,
    /// Default 20.
    wait_seconds: Option<WaitSeconds>,
}

impl Tool for WaitTask {
    const NAME: &'static str = "wait_task";
    const EFFECT: Effect = Effect::ReadOnly;
    const TASK: TaskSupport = TaskSupport::Late;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let id = self.task_id;
        service.check_owner(id, call).await?;
        let wait = WaitFor::new(self.wait_seconds);
        let mut wait = TaskWait::new(service, id, wait, call);
        let seen = wait.observe().await;
        match seen {
            // No poll succeeded, so the task may not exist.
            ObservedTask {
                task: None,
                failure: Some(failure),
            } => match service.ended.state(id).filter(|_| failure.is_transient()) {
                Some(state) => Ok(Report::from_last_state(id, state)),
                None => Report::from_failure(id, failure),
            },
            seen => Ok(wait.report(seen).await),
        }
    }

    fn task_reference(&self, _: &OpenHands, _: &Call) -> Option<String> {
        Some(earlier::reference([Some(self.task_id)]))
    }

    async fn find_task(
        service: &OpenHands,
        task: EarlierTask<'_>,
        call: &Call,
    ) -> Result<Self, ToolError> {
        let task_id = earlier::one(service, task, call).await?;
        Ok(Self {
            task_id,
            wait_seconds: None,
        })
    }
}
