//! `send_message`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::following::{WaitFor, WaitSeconds, follow};
use crate::OpenHands;
use crate::api::TaskId;
use crate::task::{Report, resume};

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
    wait_seconds: Option<WaitSeconds>,
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
        let wait = WaitFor::new(self.wait_seconds);
        resume(service, self.task_id, Some(&self.message)).await?;
        follow(service, self.task_id, wait, call).await
    }
}
