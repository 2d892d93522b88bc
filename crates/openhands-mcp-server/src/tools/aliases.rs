//! The tools of the server that seed 001 describes, by their names and arguments, on top of agent
//! profiles and tasks. A toolset of its own: who does not choose it does not pay for it.
//!
//! | alias | stands for |
//! |---|---|
//! | `create_agent`, `get_agent`, `delete_agent` | an agent profile of OpenHands |
//! | `execute_task` | `run_task` with `agent`, without waiting |
//! | `execute_mcp_task` | the same, with the tool to call in the task's words |
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
