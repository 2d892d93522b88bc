//! `execute_parallel_tasks`

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Context, execute_mcp_task, order};
use crate::OpenHands;
use crate::order::Order;
use crate::tools::arguments::Patience;
use crate::tools::run_parallel_tasks::{Runs, run};

/// Starts several tasks and does not wait; those without a place are queued.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecuteParallelTasks {
    /// 1 to 20.
    tasks: Vec<Item>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Item {
    /// The tool that would start it alone.
    r#type: Kind,
    /// From create_agent.
    agent_id: String,
    /// What to do.
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
enum Kind {
    ExecuteTask,
    ExecuteMcpTask,
}

impl Tool for ExecuteParallelTasks {
    const NAME: &'static str = "execute_parallel_tasks";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = Runs;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Runs, ToolError> {
        let patience = Patience::of(Bounded::new(0));
        let orders = self.tasks.into_iter().map(|item| item.order(patience));
        let orders: Vec<Order> = orders.collect::<Result<_, _>>()?;
        run(service, orders, patience, call).await
    }
}

impl Item {
    fn order(self, patience: Patience) -> Result<Order, ToolError> {
        let task = match (self.r#type, &self.server_name, &self.function_name) {
            (Kind::ExecuteTask, ..) => self.task,
            (Kind::ExecuteMcpTask, Some(server), Some(function)) => {
                execute_mcp_task::prompt(&self.task, server, function, self.parameters)
            }
            (Kind::ExecuteMcpTask, ..) => {
                return Err(ToolError::invalid_argument(
                    "execute_mcp_task needs server_name and function_name.",
                ));
            }
        };
        order(self.agent_id, task, self.context, patience)
    }
}
