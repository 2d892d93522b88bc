//! `fork_task`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use super::arguments::Patience;
use crate::OpenHands;
use crate::report::Report;
use crate::task_id::TaskId;

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
        let answer_by = Patience::of(None).answer_by;
        let server = service.agent_server().await?;
        let task = server.conversation(self.task_id).await?;
        let copy = TaskId::random();
        server
            .fork(self.task_id, copy, &task.notes.for_copy())
            .await?;
        if let Some(model) = server.llm_profile(task.profile()).await? {
            server.use_model(copy, &model).await?;
        }
        if let Some(message) = self.message {
            service.go_on(copy, Some(&message)).await?;
        }
        let seen = service.look_on(copy, Instant::now(), call).await;
        Ok(service.report(copy, seen, answer_by).await)
    }
}
