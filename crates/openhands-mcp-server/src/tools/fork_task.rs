//! `fork_task`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::wait::{TaskWait, WaitFor};
use crate::OpenHands;
use crate::api::TaskId;
use crate::scheduler::refuse_leftovers;
use crate::tags::ConversationTags;
use crate::task::{Continuation, Report, resume};

/// The reason for a copy's agent.
const NOT_IN_THE_COPY: &str = "This is a copy of the conversation, in which this was not done: it was not allowed yet, \
    or the original does it.";

/// Copies a task with its history, to try another way. The copy works in the same directory and starts
/// with a message: here, or with send_message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkTask {
    /// From run_task.
    task_id: TaskId,
    /// Message to the copy.
    message: Option<String>,
}

impl Tool for ForkTask {
    const NAME: &'static str = "fork_task";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let server = service.servers.shared_agent().await?;
        service.check_owner(self.task_id, call).await?;
        let task = server.conversation(self.task_id).await?;
        let copy = TaskId::random();
        let mut tags = ConversationTags::new(task.tags.clone()).without_run_state();
        // A copy does not get the key of the model: the next message sets the model.
        let was_set = tags.model().is_some();
        if !was_set {
            let model = server.llm_profile(task.profile()).await?;
            tags.set_model(model.as_deref());
        }
        server.fork(self.task_id, copy, tags.as_tags()).await?;
        // The copy would take them at its first run, without any permission.
        let refused = refuse_leftovers(&server, copy, NOT_IN_THE_COPY).await;
        if !matches!(refused, Ok(true)) {
            let error = refused.map_or_else(ToolError::from, |_| {
                ToolError::conflict(
                    "An action of the task cannot be left out of the copy. Try again later.",
                )
            });
            return Err(match server.delete(copy).await {
                Ok(()) => error,
                Err(_) => with_copy(error, copy, "Do not use it: delete_task it."),
            });
        }
        if was_set && let Err(failure) = server.unset_model(copy).await {
            // The next message would not set its model.
            return Err(match server.delete(copy).await {
                Ok(()) => failure.into(),
                Err(_) => with_copy(failure.into(), copy, "It cannot be used: delete_task it."),
            });
        }
        if let Some(message) = &self.message {
            let with = Continuation {
                message: Some(message),
                ..Continuation::default()
            };
            let resumed = resume(service, copy, &with).await;
            resumed.map_err(|error| with_copy(error, copy, ""))?;
        }
        let mut wait = TaskWait::new(service, copy, WaitFor::none(), call);
        let seen = wait.observe().await;
        Ok(wait.report(seen).await)
    }
}

/// Names the copy in the error of a call that has left it.
fn with_copy(error: ToolError, copy: TaskId, next: &str) -> ToolError {
    let message = format!(
        "{} The copy exists: task_id {copy}. {next}",
        error.message()
    );
    ToolError::new(error.kind(), message.trim_end()).caused_by(error)
}
