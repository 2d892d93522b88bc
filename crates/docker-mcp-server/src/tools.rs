//! The tools, by the kind of their object.

mod compose_project;
mod compose_service;
mod create_container;
mod diagnose;
mod execute_command;
mod files;
mod get_container_logs;
mod get_container_stats;
mod images;
mod lifecycle;
mod list_containers;
mod networks;
mod prelude;
mod recreate_container;
mod system;

pub(crate) use compose_service::ListComposeProjects;
pub(crate) use get_container_logs::GetContainerLogs;
pub(crate) use get_container_stats::GetContainerStats;
pub(crate) use images::ListImages;
pub(crate) use list_containers::{GetContainer, ListContainers};
pub(crate) use recreate_container::recover;

use crate::docker::Docker;
use mcp_core::tool::Toolset;

/// All tools, in the order of the list: a small default toolset, and one for each kind of object.
pub(crate) fn all() -> Toolset<Docker> {
    Toolset::new()
        .with::<list_containers::ListContainers>()
        .with::<list_containers::GetContainer>()
        .with::<lifecycle::StartContainer>()
        .with::<lifecycle::StopContainer>()
        .with::<lifecycle::RestartContainer>()
        .with::<get_container_logs::GetContainerLogs>()
        .with::<diagnose::DiagnoseContainer>()
        .group(
            "containers",
            Toolset::new()
                .with::<create_container::CreateContainer>()
                .with::<create_container::UpdateContainer>()
                .with::<recreate_container::RecreateContainer>()
                .with::<lifecycle::KillContainer>()
                .with::<lifecycle::RemoveContainer>()
                .with::<lifecycle::WaitContainer>()
                .with::<get_container_stats::GetContainerStats>()
                .with::<files::CopyFromContainer>()
                .with::<files::CopyToContainer>(),
        )
        .group(
            "images",
            Toolset::new()
                .with::<images::ListImages>()
                .with::<images::PullImage>()
                .with::<images::PushImage>()
                .with::<images::BuildImage>()
                .with::<images::TagImage>()
                .with::<images::RemoveImage>(),
        )
        .group(
            "networks",
            Toolset::new()
                .with::<networks::ListNetworks>()
                .with::<networks::CreateNetwork>()
                .with::<networks::ConnectNetwork>()
                .with::<networks::RemoveNetwork>(),
        )
        .group(
            "volumes",
            Toolset::new()
                .with::<networks::ListVolumes>()
                .with::<networks::CreateVolume>()
                .with::<networks::RemoveVolume>(),
        )
        .group(
            "compose",
            Toolset::new()
                .with::<compose_service::ListComposeProjects>()
                .with::<compose_project::ComposeConfig>()
                .with::<compose_project::ComposeUp>()
                .with::<compose_service::ComposeService>(),
        )
        .group(
            "system",
            Toolset::new()
                .with::<system::GetSystemInfo>()
                .with::<diagnose::DiagnoseHost>()
                .with::<system::ListEvents>()
                .with::<system::Prune>(),
        )
        .group(
            "exec",
            Toolset::new().with::<execute_command::ExecuteCommand>(),
        )
}
