//! `respond_confirmation`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::wait::{TaskWait, WaitFor, WaitSeconds};
use crate::OpenHands;
use crate::api::TaskId;
use crate::task::{PermissionAnswer, ShortReport, ask_user, send_answer};

/// Allows or refuses all actions in confirmation of a task that is waiting_for_confirmation. A refused
/// agent stops: tell it what to do instead with send_message. Returns as run_task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RespondConfirmation {
    /// From run_task.
    task_id: TaskId,
    /// Of the actions that were read.
    confirmation_id: String,
    /// Whether it may.
    accept: bool,
    /// Why not.
    reason: Option<String>,
    /// Seconds to wait for the end; default 20.
    wait_seconds: Option<WaitSeconds>,
}

impl Tool for RespondConfirmation {
    const NAME: &'static str = "respond_confirmation";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = ShortReport;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<ShortReport, ToolError> {
        let id = self.task_id;
        let wait = WaitFor::new(self.wait_seconds, service);
        let mut answer = PermissionAnswer::new(self.confirmation_id, self.accept, self.reason)?;
        let server = service.task_server(id, call).await?;
        // The model may have accepted without asking its user.
        if answer.accept && call.capabilities().elicitation {
            let asked = ask_user(&server, id, Some(&answer.confirmation_id), call).await?;
            answer = asked.ok_or_else(|| {
                ToolError::forbidden(
                    "The user was asked and did not answer, so the agent still waits. Ask the user \
                     what to do.",
                )
            })?;
        }
        send_answer(service, &server, id, &answer).await?;
        TaskWait::new(service, id, wait, call)
            .follow()
            .await
            .map(ShortReport)
    }
}
