//! The resources: each one holds the answer of a read tool.

use mcp_core::resource::{Resource, ResourceContents};
use mcp_core::tool::{Call, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use upstream::resource::from_tool;

use super::{container_names, project_names, uri};
use crate::docker::Docker;
use crate::name::{ContainerName, ObjectName};
use crate::tools::{
    GetContainer, GetContainerLogs, GetContainerStats, ListComposeProjects, ListContainers,
    ListImages,
};

const JSON: &str = "application/json";
/// The template of a container's URI.
pub(super) const CONTAINER_TEMPLATE: &str = "docker://containers/{id}";

/// All containers, stopped ones too: state, health, ports, compose project.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ContainersResource {}

impl Resource for ContainersResource {
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
pub(super) struct ContainerResource {
    id: ContainerName,
}

impl Resource for ContainerResource {
    const URI: &'static str = CONTAINER_TEMPLATE;
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
pub(super) struct LogsResource {
    id: ContainerName,
}

impl Resource for LogsResource {
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

/// CPU, memory, network and disk usage of a running container.
#[derive(Deserialize, JsonSchema)]
pub(super) struct StatsResource {
    id: ContainerName,
}

impl Resource for StatsResource {
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

/// The images of the engine: tags, size, age.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ImagesResource {}

impl Resource for ImagesResource {
    const URI: &'static str = uri::IMAGES;
    const NAME: &'static str = "Images";
    const MIME_TYPE: &'static str = JSON;
    type Service = Docker;

    async fn read(self, docker: &Docker, call: &Call) -> Result<ResourceContents, ToolError> {
        from_tool(ListImages::default(), docker, call).await
    }
}

/// The compose projects with the state and health of their services.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ProjectsResource {}

impl Resource for ProjectsResource {
    const URI: &'static str = uri::COMPOSE;
    const NAME: &'static str = "Compose projects";
    const MIME_TYPE: &'static str = JSON;
    type Service = Docker;

    async fn read(self, docker: &Docker, call: &Call) -> Result<ResourceContents, ToolError> {
        from_tool(ListComposeProjects::new(None), docker, call).await
    }
}

/// One compose project: state, health and ports of its services.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ProjectResource {
    project: ObjectName,
}

impl Resource for ProjectResource {
    const URI: &'static str = "docker://compose/{project}";
    const NAME: &'static str = "Compose project";
    const MIME_TYPE: &'static str = JSON;
    type Service = Docker;

    async fn read(self, docker: &Docker, call: &Call) -> Result<ResourceContents, ToolError> {
        from_tool(ListComposeProjects::new(Some(self.project)), docker, call).await
    }

    async fn complete(docker: &Docker, _: &str, value: &str) -> Vec<String> {
        project_names(docker, value).await
    }
}
