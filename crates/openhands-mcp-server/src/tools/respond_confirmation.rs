//! `respond_confirmation`

use mcp_core::tool::{Call, Effect, Tool, ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{Patience, Wait};
use crate::OpenHands;
use crate::api::{Action, Execution, kind};
use crate::clock;
use crate::report::Report;
use crate::task_id::TaskId;

/// Bytes of a reason.
const MAX_REASON: usize = 2_000;

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
    wait_seconds: Option<Wait>,
}

impl Tool for RespondConfirmation {
    const NAME: &'static str = "respond_confirmation";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let id = self.task_id;
        let patience = Patience::of(self.wait_seconds);
        let reason = self.reason.unwrap_or_else(|| "The user refused it.".into());
        if reason.len() > MAX_REASON {
            return Err(ToolError::invalid_argument(format!(
                "reason is longer than {MAX_REASON} bytes."
            )));
        }
        let mut task = service.server.conversation(id).await?;
        if task.execution_status != Execution::WaitingForConfirmation {
            return Err(ToolError::new(
                ToolErrorKind::Conflict,
                "The task does not wait for a permission. Ask get_task_status what it does.",
            ));
        }
        // Its run begins anew, and with it the time that it may take; or it is over.
        match self.accept {
            true => task.notes.begin(clock::now()),
            false => task.notes.end(),
        }
        service.server.note(id, &task.notes).await?;
        let asked: Option<Action> = service.server.last_event(id, kind::ACTION).await?;
        service.server.respond(id, self.accept, &reason).await?;
        service.leave_question(id, asked.as_ref()).await;
        let seen = service.follow(id, patience.until, call).await?;
        Ok(service.report(id, seen, patience.answer_by).await)
    }
}
