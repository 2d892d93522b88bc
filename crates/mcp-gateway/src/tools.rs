//! The gateway's own tools: status, event log, restart of a backend, and search in many tools.

mod call_tool;
mod gateway_restart;
mod gateway_status;
mod get_events;
mod search_tools;

use mcp_core::tool::Toolset;

pub(crate) use self::gateway_status::GatewayReport;
pub(crate) use self::get_events::{GetEvents, not_written};

use crate::gateway::Gateway;

/// The tools that are always listed.
pub(crate) fn own() -> Toolset<Gateway> {
    Toolset::new()
        .with::<gateway_status::GatewayStatus>()
        .with::<get_events::GetEvents>()
        .with::<gateway_restart::GatewayRestart>()
}

/// The tools that take the place of the backends' tools if there are too many to list.
pub(crate) fn search() -> Toolset<Gateway> {
    Toolset::new()
        .with::<search_tools::SearchTools>()
        .with::<call_tool::CallTool>()
}
