//! `send_message`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{Patience, Wait};
use crate::OpenHands;
use crate::report::Report;
use crate::task_id::TaskId;

/// Bytes of a message.
const MAX_MESSAGE: usize = 200_000;

/// Tells the agent of a task more, whether it runs or has ended: a correction, or what to do next.
/// It goes on with all that it knows; returns as run_task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendMessage {
    /// From run_task.
    task_id: TaskId,
    /// What to tell it.
    message: String,
    /// How long to wait for the end; default 20.
    wait_seconds: Option<Wait>,
}

impl Tool for SendMessage {
    const NAME: &'static str = "send_message";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        if self.message.trim().is_empty() || self.message.len() > MAX_MESSAGE {
            return Err(ToolError::invalid_argument(format!(
                "message must have 1 to {MAX_MESSAGE} bytes."
            )));
        }
        let id = self.task_id;
        let patience = Patience::of(self.wait_seconds);
        service.go_on(id, Some(&self.message)).await?;
        let seen = service.follow(id, patience.until, call).await?;
        Ok(service.report(id, seen, patience.answer_by).await)
    }
}
