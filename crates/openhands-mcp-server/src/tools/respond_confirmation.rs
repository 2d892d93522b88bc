//! `respond_confirmation`

use mcp_core::tool::{Call, Effect, Tool, ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::Deserialize;

use super::following::{WaitFor, WaitSeconds, follow};
use crate::OpenHands;
use crate::api::TaskId;
use crate::task::{Answer, Report, ask_user, give_answer};

/// Allows or refuses last_action of a task that is waiting_for_confirmation. A refused agent stops:
/// tell it what to do instead with send_message. Returns as run_task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RespondConfirmation {
    /// From run_task.
    task_id: TaskId,
    /// Whether it may.
    accept: bool,
    /// Why not.
    reason: Option<String>,
    /// How long to wait for the end; default 20.
    wait_seconds: Option<WaitSeconds>,
}

impl Tool for RespondConfirmation {
    const NAME: &'static str = "respond_confirmation";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let id = self.task_id;
        let wait = WaitFor::new(self.wait_seconds);
        let mut answer = Answer::new(self.accept, self.reason)?;
        let server = service.servers.at(id).await?;
        // The model may have agreed for its user.
        if answer.accept && call.capabilities().elicitation {
            let asked = ask_user(&server, id, call).await?;
            answer = asked.ok_or_else(unanswered)?;
        }
        give_answer(&server, id, &answer).await?;
        follow(service, id, wait, call).await
    }
}

fn unanswered() -> ToolError {
    ToolError::new(
        ToolErrorKind::Forbidden,
        "The user was asked and did not answer, so the agent still waits. Ask the user what to do.",
    )
}
