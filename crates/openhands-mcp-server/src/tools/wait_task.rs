//! `wait_task`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{Patience, Wait};
use crate::OpenHands;
use crate::report::Report;
use crate::task_id::TaskId;

/// Waits until a task ends, asks or stops, at most wait_seconds; then as get_task_result. Giving up
/// on the wait changes nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitTask {
    /// From run_task.
    task_id: TaskId,
    /// Default 20.
    wait_seconds: Option<Wait>,
}

impl Tool for WaitTask {
    const NAME: &'static str = "wait_task";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let id = self.task_id;
        let patience = Patience::of(self.wait_seconds);
        let seen = service.look_on(id, patience.until, call).await;
        match (seen.task.is_some(), seen.failure) {
            // Nothing was ever seen of it, so it may not exist.
            (false, Some(failure)) => Report::unread(id, failure),
            (_, failure) => {
                let seen = crate::follow::Seen { failure, ..seen };
                Ok(service.report(id, seen, patience.answer_by).await)
            }
        }
    }
}
