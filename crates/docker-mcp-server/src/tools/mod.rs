//! The tools, one file each.

mod change;
mod diagnose_container;
pub(crate) mod exit;
mod get_container;
mod get_container_logs;
mod list_containers;
mod ports;
mod restart_container;
mod start_container;
mod stop_container;

pub(crate) use get_container::GetContainer;
pub(crate) use get_container_logs::GetContainerLogs;
pub(crate) use list_containers::ListContainers;

use mcp_core::tool::Toolset;

use crate::Docker;

/// All tools, in the order in which they are listed.
pub(crate) fn all() -> Toolset<Docker> {
    Toolset::new()
        .with::<list_containers::ListContainers>()
        .with::<get_container::GetContainer>()
        .with::<start_container::StartContainer>()
        .with::<stop_container::StopContainer>()
        .with::<restart_container::RestartContainer>()
        .with::<get_container_logs::GetContainerLogs>()
        .with::<diagnose_container::DiagnoseContainer>()
}

/// The first 12 characters of an id, which is how Docker shows it.
fn short_id(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}
