//! The tools of the server that seed 001 describes, with their names and arguments, implemented with
//! agent profiles and tasks. They are a separate toolset, so that only its users pay for its tokens.
//!
//! | alias | is the same as |
//! |---|---|
//! | `create_agent`, `get_agent`, `delete_agent` | an agent profile of OpenHands |
//! | `execute_task` | `run_task` with `agent`, without waiting |
//! | `execute_mcp_task` | the same, with the MCP tool in the text of the task |
//! | `execute_parallel_tasks` | `run_parallel_tasks`, without waiting |

mod agents;
mod tasks;

use mcp_core::tool::Toolset;

use crate::OpenHands;

pub(super) fn all() -> Toolset<OpenHands> {
    Toolset::new()
        .with::<agents::CreateAgent>()
        .with::<agents::GetAgent>()
        .with::<agents::DeleteAgent>()
        .with::<tasks::ExecuteTask>()
        .with::<tasks::ExecuteMcpTask>()
        .with::<tasks::ExecuteParallelTasks>()
}
