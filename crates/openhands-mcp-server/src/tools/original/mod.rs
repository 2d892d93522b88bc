//! The tools of the server that seed 001 describes, by their names and arguments, on top of agent
//! profiles and tasks. A toolset of its own: who does not choose it does not pay for it.

mod create_agent;
mod delete_agent;
mod execute_mcp_task;
mod execute_parallel_tasks;
mod execute_task;
mod get_agent;

use mcp_core::tool::{ToolError, Toolset};
use serde_json::{Map, Value};

use super::arguments::Patience;
use crate::OpenHands;
use crate::file_name::FileName;
use crate::order::Order;

pub(super) fn original() -> Toolset<OpenHands> {
    Toolset::new()
        .with::<create_agent::CreateAgent>()
        .with::<get_agent::GetAgent>()
        .with::<delete_agent::DeleteAgent>()
        .with::<execute_task::ExecuteTask>()
        .with::<execute_mcp_task::ExecuteMcpTask>()
        .with::<execute_parallel_tasks::ExecuteParallelTasks>()
}

/// Anything the agent should know: `file` and `content` become a file, the rest is told to it.
type Context = Map<String, Value>;

/// An order for an agent, from arguments that take anything as context.
fn order(
    agent: String,
    task: String,
    context: Option<Context>,
    patience: Patience,
) -> Result<Order, ToolError> {
    let mut order = Order::new(task, patience.answer_by);
    order.agent = Some(agent);
    let mut context = context.unwrap_or_default();
    if let (Some(Value::String(file)), Some(Value::String(content))) = (
        context.get("file").cloned(),
        context.get("content").cloned(),
    ) {
        let file = FileName::new(&file).map_err(|reason| {
            ToolError::invalid_argument(format!("context.file: the file name {reason}"))
        })?;
        order.files.push((file, content));
        context.retain(|name, _| name != "file" && name != "content");
    }
    if !context.is_empty() {
        order.task += &format!("\n\nContext: {}", Value::Object(context));
    }
    order.checked()
}
