//! The tools, one file each.

mod build_image;
mod compose_config;
mod compose_down;
mod compose_project;
mod compose_service;
mod compose_up;
mod connect_network;
mod copy_from_container;
mod copy_to_container;
mod create_container;
mod create_network;
mod create_volume;
mod deadline;
mod diagnose_container;
mod diagnose_host;
mod disconnect_network;
mod execute_command;
mod get_container;
mod get_container_logs;
mod get_container_stats;
mod get_image;
mod get_system_info;
mod kill_container;
mod limits;
mod list_compose_projects;
mod list_containers;
mod list_events;
mod list_images;
mod list_networks;
mod list_volumes;
mod object_change;
mod pause_container;
mod prelude;
mod prune;
mod pull_image;
mod push_image;
mod recreate_container;
mod remove_container;
mod remove_image;
mod remove_network;
mod remove_volume;
mod restart_container;
mod start_container;
mod state_change;
mod stop_container;
mod tag_image;
mod transfer;
mod update_container;
mod wait_container;

pub(crate) use deadline::Deadline;
pub(crate) use get_container::GetContainer;
pub(crate) use get_container_logs::GetContainerLogs;
pub(crate) use get_container_stats::GetContainerStats;
pub(crate) use list_compose_projects::ListComposeProjects;
pub(crate) use list_containers::ListContainers;
pub(crate) use list_images::ListImages;
pub(crate) use prelude::keep_end;
pub(crate) use recreate_container::recover;

use crate::docker::Docker;
use mcp_core::tool::Toolset;

/// All tools, in the order of the list: a small default toolset, and one for each kind of object.
pub(crate) fn all() -> Toolset<Docker> {
    Toolset::new()
        .with::<list_containers::ListContainers>()
        .with::<get_container::GetContainer>()
        .with::<start_container::StartContainer>()
        .with::<stop_container::StopContainer>()
        .with::<restart_container::RestartContainer>()
        .with::<get_container_logs::GetContainerLogs>()
        .with::<diagnose_container::DiagnoseContainer>()
        .group(
            "containers",
            Toolset::new()
                .with::<create_container::CreateContainer>()
                .with::<update_container::UpdateContainer>()
                .with::<recreate_container::RecreateContainer>()
                .with::<pause_container::PauseContainer>()
                .with::<kill_container::KillContainer>()
                .with::<remove_container::RemoveContainer>()
                .with::<wait_container::WaitContainer>()
                .with::<get_container_stats::GetContainerStats>()
                .with::<copy_from_container::CopyFromContainer>()
                .with::<copy_to_container::CopyToContainer>(),
        )
        .group(
            "images",
            Toolset::new()
                .with::<list_images::ListImages>()
                .with::<get_image::GetImage>()
                .with::<pull_image::PullImage>()
                .with::<push_image::PushImage>()
                .with::<build_image::BuildImage>()
                .with::<tag_image::TagImage>()
                .with::<remove_image::RemoveImage>(),
        )
        .group(
            "networks",
            Toolset::new()
                .with::<list_networks::ListNetworks>()
                .with::<create_network::CreateNetwork>()
                .with::<connect_network::ConnectNetwork>()
                .with::<disconnect_network::DisconnectNetwork>()
                .with::<remove_network::RemoveNetwork>(),
        )
        .group(
            "volumes",
            Toolset::new()
                .with::<list_volumes::ListVolumes>()
                .with::<create_volume::CreateVolume>()
                .with::<remove_volume::RemoveVolume>(),
        )
        .group(
            "compose",
            Toolset::new()
                .with::<list_compose_projects::ListComposeProjects>()
                .with::<compose_config::ComposeConfig>()
                .with::<compose_up::ComposeUp>()
                .with::<compose_service::ComposeService>()
                .with::<compose_down::ComposeDown>(),
        )
        .group(
            "system",
            Toolset::new()
                .with::<get_system_info::GetSystemInfo>()
                .with::<diagnose_host::DiagnoseHost>()
                .with::<list_events::ListEvents>()
                .with::<prune::Prune>(),
        )
        .group(
            "exec",
            Toolset::new().with::<execute_command::ExecuteCommand>(),
        )
}
