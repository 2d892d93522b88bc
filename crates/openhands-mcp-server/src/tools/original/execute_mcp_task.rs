//! `execute_mcp_task`

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::order;
use crate::OpenHands;
use crate::report::Report;
use crate::tools::arguments::Patience;

/// Starts a task in which the agent calls a function of one of its MCP servers, and does not wait.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecuteMcpTask {
    /// From create_agent.
    agent_id: String,
    /// What to do, in words.
    task: String,
    /// MCP server of the agent.
    server_name: String,
    /// Its tool.
    function_name: String,
    /// The tool's arguments.
    parameters: Option<Map<String, Value>>,
}

impl Tool for ExecuteMcpTask {
    const NAME: &'static str = "execute_mcp_task";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let patience = Patience::of(Bounded::new(0));
        let task = prompt(
            &self.task,
            &self.server_name,
            &self.function_name,
            self.parameters,
        );
        let id = service
            .start(order(self.agent_id, task, None, patience)?)
            .await?;
        let seen = service.follow(id, patience.until, call).await?;
        Ok(service.report(id, seen, patience.answer_by).await)
    }
}

/// The task, and which tool to do it with.
pub(super) fn prompt(
    task: &str,
    server: &str,
    function: &str,
    parameters: Option<Map<String, Value>>,
) -> String {
    let parameters = Value::Object(parameters.unwrap_or_default());
    format!(
        "{task}\n\nFor this, call the tool `{function}` of the MCP server `{server}` with these \
         arguments: {parameters}"
    )
}

#[cfg(test)]
mod tests {
    use super::prompt;

    #[test]
    fn the_agent_is_told_which_tool() {
        let parameters = serde_json::json!({"id": 1}).as_object().cloned();
        assert_eq!(
            prompt("Run it.", "n8n", "run_workflow", parameters),
            "Run it.\n\nFor this, call the tool `run_workflow` of the MCP server `n8n` with these \
             arguments: {\"id\":1}"
        );
    }
}
