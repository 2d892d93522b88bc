//! `execute_task`

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Context, order};
use crate::OpenHands;
use crate::report::Report;
use crate::tools::arguments::Patience;

/// Starts a task with an agent and does not wait: ask get_task_status and get_task_result.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecuteTask {
    /// From create_agent.
    agent_id: String,
    /// What to do, in words.
    task: String,
    /// What the agent should know; file and content become a file.
    context: Option<Context>,
}

impl Tool for ExecuteTask {
    const NAME: &'static str = "execute_task";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let patience = Patience::of(Bounded::new(0));
        let order = order(self.agent_id, self.task, self.context, patience)?;
        let id = service.start(order).await?;
        let seen = service.follow(id, patience.until, call).await?;
        Ok(service.report(id, seen, patience.answer_by).await)
    }
}
