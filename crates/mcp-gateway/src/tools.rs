//! The gateway's own tools: how it is, what has happened, and finding one's way in many tools.

mod call_tool;
mod gateway_restart;
mod gateway_status;
mod get_events;
mod search_tools;

use mcp_core::tool::Toolset;

use crate::gateway::Gateway;

/// Those that are always offered.
pub(crate) fn own() -> Toolset<Gateway> {
    Toolset::new()
        .with::<gateway_status::GatewayStatus>()
        .with::<get_events::GetEvents>()
        .with::<gateway_restart::GatewayRestart>()
}

/// Those that stand for the backends' tools where there are too many to be listed.
pub(crate) fn search() -> Toolset<Gateway> {
    Toolset::new()
        .with::<search_tools::SearchTools>()
        .with::<call_tool::CallTool>()
}
