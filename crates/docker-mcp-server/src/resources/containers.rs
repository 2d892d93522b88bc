//! `docker://containers` and what is below it.

use mcp_core::resource::{Resource, ResourceContents};
use mcp_core::tool::{Call, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use upstream::resource::from_tool;

use super::{container_names, uri};
use crate::docker::Docker;
use crate::name::ContainerName;
use crate::tools::{GetContainer, GetContainerLogs, GetContainerStats, ListContainers};

const JSON: &str = "application/json";
/// Of one container.
pub(super) const TEMPLATE: &str = "docker://containers/{id}";

/// All containers, stopped ones too: state, health, ports, compose project.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Containers {}

impl Resource for Containers {
    const URI: &'static str = uri::CONTAINERS;
    const NAME: &'static str = "Containers";
    const MIME_TYPE: &'static str = JSON;
    type Service = Docker;

    async fn read(self, docker: &Docker, call: &Call) -> Result<ResourceContents, ToolError> {
        from_tool(ListContainers::all(), docker, call).await
    }
}

/// One container, by name or id: state, health, configuration, mounts, networks.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Container {
    id: ContainerName,
}

impl Resource for Container {
    const URI: &'static str = TEMPLATE;
    const NAME: &'static str = "Container";
    const MIME_TYPE: &'static str = JSON;
    type Service = Docker;

    async fn read(self, docker: &Docker, call: &Call) -> Result<ResourceContents, ToolError> {
        from_tool(GetContainer::new(self.id), docker, call).await
    }

    async fn complete(docker: &Docker, _: &str, value: &str) -> Vec<String> {
        container_names(docker, value).await
    }
}

/// The newest lines of a container's log.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Logs {
    id: ContainerName,
}

impl Resource for Logs {
    const URI: &'static str = "docker://containers/{id}/logs";
    const NAME: &'static str = "Container log";
    const MIME_TYPE: &'static str = JSON;
    type Service = Docker;

    async fn read(self, docker: &Docker, call: &Call) -> Result<ResourceContents, ToolError> {
        from_tool(GetContainerLogs::new(self.id), docker, call).await
    }

    async fn complete(docker: &Docker, _: &str, value: &str) -> Vec<String> {
        container_names(docker, value).await
    }
}

/// What a running container uses: CPU, memory, network, disk.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Stats {
    id: ContainerName,
}

impl Resource for Stats {
    const URI: &'static str = "docker://containers/{id}/stats";
    const NAME: &'static str = "Container statistics";
    const MIME_TYPE: &'static str = JSON;
    type Service = Docker;

    async fn read(self, docker: &Docker, call: &Call) -> Result<ResourceContents, ToolError> {
        from_tool(GetContainerStats::new(self.id), docker, call).await
    }

    async fn complete(docker: &Docker, _: &str, value: &str) -> Vec<String> {
        container_names(docker, value).await
    }
}
