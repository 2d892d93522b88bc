//! `send_message`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::wait::{TaskWait, WaitFor, WaitSeconds};
use crate::OpenHands;
use crate::api::TaskId;
use crate::task::{Continuation, ShortReport, resume};

/// Bytes of a message.
const MAX_MESSAGE_BYTES: usize = 200_000;

/// Sends the agent of a task a correction or a next step, while it runs or after its end. It keeps
/// its history. Returns as run_task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendMessage {
    /// From run_task.
    task_id: TaskId,
    /// Text for it.
    message: String,
    /// Seconds to wait for the end; default 20.
    wait_seconds: Option<WaitSeconds>,
    /// As in run_task.
    callback_url: Option<String>,
}

impl Tool for SendMessage {
    const NAME: &'static str = "send_message";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = ShortReport;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<ShortReport, ToolError> {
        if self.message.trim().is_empty() || self.message.len() > MAX_MESSAGE_BYTES {
            return Err(ToolError::invalid_argument(format!(
                "message must have 1 to {MAX_MESSAGE_BYTES} bytes."
            )));
        }
        let (id, wait) = (self.task_id, WaitFor::new(self.wait_seconds, service));
        service.check_owner(id, call).await?;
        let with = Continuation {
            message: Some(&self.message),
            callback: service
                .callbacks
                .check_given(self.callback_url.as_deref())?,
            ..Continuation::default()
        };
        resume(service, id, &with, wait.slot_by()).await?;
        TaskWait::new(service, id, wait, call)
            .follow()
            .await
            .map(ShortReport)
    }
}
