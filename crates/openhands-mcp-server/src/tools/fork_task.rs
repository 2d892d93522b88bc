//! `fork_task`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::following::WaitFor;
use crate::OpenHands;
use crate::api::TaskId;
use crate::tags::ConversationTags;
use crate::task::{Report, observe, resume};

/// Copies a task with all that its agent knows, to try another way. The copy works in the same
/// directory and starts when it is told something: here, or with send_message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkTask {
    /// From run_task.
    task_id: TaskId,
    /// What to tell the copy.
    message: Option<String>,
}

impl Tool for ForkTask {
    const NAME: &'static str = "fork_task";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let wait = WaitFor::none();
        let server = service.servers.agent().await?;
        let task = server.conversation(self.task_id).await?;
        let copy = TaskId::random();
        let tags = ConversationTags::new(task.tags.clone()).for_copy();
        server.fork(self.task_id, copy, tags.as_tags()).await?;
        if let Some(model) = server.llm_profile(task.profile()).await? {
            server.use_model(copy, &model).await?;
        }
        if let Some(message) = self.message {
            resume(service, copy, Some(&message)).await?;
        }
        let seen = observe(service, copy, wait.until, call).await;
        Ok(Report::new(service, copy, seen, wait.answer_by).await)
    }
}
