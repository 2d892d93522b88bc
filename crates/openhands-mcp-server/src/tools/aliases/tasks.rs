//! `execute_task`, `execute_mcp_task` and `execute_parallel_tasks`: tasks of an agent, started
//! without waiting for them.

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::OpenHands;
use crate::api::FileName;
use crate::task::{ShortReport, TaskSpec, create};
use crate::tools::run_parallel_tasks::{ParallelRuns, run};
use crate::tools::wait::{TaskWait, WaitFor};
use crate::workspace::FileContent;

/// Starts a task with an agent without waiting: call get_task_status and get_task_result.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecuteTask {
    /// From create_agent.
    agent_id: String,
    /// The task in words.
    task: String,
    /// Facts for the agent; file and content become a file.
    context: Option<Context>,
}

/// Facts for the agent: `file` and `content` become a file, the rest goes into the prompt.
type Context = Map<String, Value>;

impl Tool for ExecuteTask {
    const NAME: &'static str = "execute_task";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = ShortReport;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<ShortReport, ToolError> {
        let wait = WaitFor::none();
        let spec = spec(self.agent_id, self.task, self.context, wait)?;
        let id = create(service, call, spec).await?;
        TaskWait::new(service, id, wait, call)
            .follow()
            .await
            .map(ShortReport)
    }
}

/// Starts a task in which the agent calls a function of one of its MCP servers, without waiting.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecuteMcpTask {
    /// From create_agent.
    agent_id: String,
    /// The task in words.
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
    type Output = ShortReport;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<ShortReport, ToolError> {
        let wait = WaitFor::none();
        let (server, function) = (&self.server_name, &self.function_name);
        let task = mcp_prompt(&self.task, server, function, self.parameters);
        let id = create(service, call, spec(self.agent_id, task, None, wait)?).await?;
        TaskWait::new(service, id, wait, call)
            .follow()
            .await
            .map(ShortReport)
    }
}

/// Starts several tasks without waiting; one without a slot has an error.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecuteParallelTasks {
    /// 1 to 20.
    tasks: Vec<AliasedTask>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AliasedTask {
    /// The tool for a single task.
    r#type: TaskType,
    /// From create_agent.
    agent_id: String,
    /// The task.
    task: String,
    /// As in execute_task.
    context: Option<Context>,
    /// As in execute_mcp_task.
    server_name: Option<String>,
    /// As in execute_mcp_task.
    function_name: Option<String>,
    /// As in execute_mcp_task.
    parameters: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TaskType {
    ExecuteTask,
    ExecuteMcpTask,
}

impl Tool for ExecuteParallelTasks {
    const NAME: &'static str = "execute_parallel_tasks";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = ParallelRuns;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<ParallelRuns, ToolError> {
        let wait = WaitFor::none();
        let specs = self.tasks.into_iter().map(|item| item.spec(wait));
        run(service, specs.collect::<Result<_, _>>()?, wait, call).await
    }
}

impl AliasedTask {
    fn spec(self, wait: WaitFor) -> Result<TaskSpec, ToolError> {
        let task = match (self.r#type, &self.server_name, &self.function_name) {
            (TaskType::ExecuteTask, ..) => self.task,
            (TaskType::ExecuteMcpTask, Some(server), Some(function)) => {
                mcp_prompt(&self.task, server, function, self.parameters)
            }
            (TaskType::ExecuteMcpTask, ..) => {
                return Err(ToolError::invalid_argument(
                    "execute_mcp_task needs server_name and function_name.",
                ));
            }
        };
        spec(self.agent_id, task, self.context, wait)
    }
}

/// The specification of a task for an agent, with any object as context.
fn spec(
    agent: String,
    task: String,
    context: Option<Context>,
    wait: WaitFor,
) -> Result<TaskSpec, ToolError> {
    let mut spec = TaskSpec::new(task, wait.answer_by);
    spec.slot_by = wait.slot_by();
    spec.agent = Some(agent);
    let mut context = context.unwrap_or_default();
    let text = |name: &str| context.get(name)?.as_str().map(str::to_owned);
    if let (Some(file), Some(content)) = (text("file"), text("content")) {
        let file = FileName::new(&file).map_err(|reason| {
            ToolError::invalid_argument(format!("context.file: the file name {reason}"))
        })?;
        spec.workspace
            .files
            .push((file, FileContent(content.into_bytes())));
        context.retain(|name, _| name != "file" && name != "content");
    }
    if !context.is_empty() {
        spec.task += &format!("\n\nContext: {}", Value::Object(context));
    }
    spec.checked()
}

/// The text of the task, with the MCP tool to call.
fn mcp_prompt(
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
    use super::mcp_prompt;

    #[test]
    fn prompt_names_the_tool_and_its_arguments() {
        let parameters = serde_json::json!({"id": 1}).as_object().cloned();
        assert_eq!(
            mcp_prompt("Run it.", "n8n", "run_workflow", parameters),
            "Run it.\n\nFor this, call the tool `run_workflow` of the MCP server `n8n` with these \
             arguments: {\"id\":1}"
        );
    }
}
