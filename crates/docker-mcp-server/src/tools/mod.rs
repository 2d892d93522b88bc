//! The tools, one file each.

mod change;
mod copy_from_container;
mod copy_to_container;
mod create_container;
mod diagnose_container;
mod execute_command;
pub(crate) mod exit;
mod follow_container_logs;
mod get_container;
mod get_container_logs;
mod get_container_stats;
mod kill_container;
mod list_containers;
mod pause_container;
mod ports;
mod remove_container;
mod restart_container;
mod start_container;
mod stop_container;
mod update_container;
mod wait_container;

pub(crate) use get_container::GetContainer;
pub(crate) use get_container_logs::GetContainerLogs;
pub(crate) use get_container_stats::GetContainerStats;
pub(crate) use list_containers::ListContainers;

use mcp_core::tool::Toolset;
use serde::Serialize;

use crate::Docker;

/// All tools, in the order in which they are listed: a small toolset that is offered unless others
/// are chosen, and one for each kind of thing.
pub(crate) fn all() -> Toolset<Docker> {
    Toolset::new()
        .with::<list_containers::ListContainers>()
        .with::<get_container::GetContainer>()
        .with::<start_container::StartContainer>()
        .with::<stop_container::StopContainer>()
        .with::<restart_container::RestartContainer>()
        .with::<get_container_logs::GetContainerLogs>()
        .with::<diagnose_container::DiagnoseContainer>()
        .group("containers", containers())
        .group(
            "exec",
            Toolset::new().with::<execute_command::ExecuteCommand>(),
        )
}

fn containers() -> Toolset<Docker> {
    Toolset::new()
        .with::<create_container::CreateContainer>()
        .with::<update_container::UpdateContainer>()
        .with::<pause_container::PauseContainer>()
        .with::<kill_container::KillContainer>()
        .with::<remove_container::RemoveContainer>()
        .with::<wait_container::WaitContainer>()
        .with::<follow_container_logs::FollowContainerLogs>()
        .with::<get_container_stats::GetContainerStats>()
        .with::<copy_from_container::CopyFromContainer>()
        .with::<copy_to_container::CopyToContainer>()
}

/// As many of `rows` as fit in `room` bytes of JSON, and how many do not.
fn fit<T: Serialize>(rows: Vec<T>, mut room: usize) -> (Vec<T>, usize) {
    let count = rows.len();
    let mut shown = Vec::new();
    for row in rows {
        let size = serde_json::to_string(&row).map_or(usize::MAX, |json| json.len() + 1);
        let Some(left) = room.checked_sub(size) else {
            break;
        };
        room = left;
        shown.push(row);
    }
    let omitted = count - shown.len();
    (shown, omitted)
}

/// The first 12 characters of an id, which is how Docker shows it.
fn short_id(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}
