//! The resources: each one holds the answer of a read tool.

use mcp_core::resource::{Resource, ResourceContents};
use mcp_core::tool::{Call, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use upstream::resource::from_tool;

use super::{container_names, project_names, uri};
use crate::docker::Docker;
use crate::engine::{ContainerName, ObjectName};
use crate::tools::{
    GetContainer, GetContainerLogs, GetContainerStats, ListComposeProjects, ListContainers,
    ListImages,
};

/// The template of a container's URI.
pub(super) const CONTAINER_TEMPLATE: &str = "docker://containers/{id}";

/// Declares a resource: its type, name and URI, the variables of the URI in brackets, the tool call that it
/// holds the answer of, and the function that completes its variable.
macro_rules! resource {
    (
        $(#[$documentation:meta])*
        $type:ident, $name:literal, $uri:expr,
        [$($variable:ident: $syntax:ty)?] => $tool:expr $(, $completions:ident)?
    ) => {
        $(#[$documentation])*
        #[derive(Deserialize, JsonSchema)]
        pub(super) struct $type {
            $($variable: $syntax)?
        }

        impl Resource for $type {
            const URI: &'static str = $uri;
            const NAME: &'static str = $name;
            const MIME_TYPE: &'static str = "application/json";
            type Service = Docker;

            async fn read(self, docker: &Docker, call: &Call) -> Result<ResourceContents, ToolError> {
                $(let $variable = self.$variable;)?
                from_tool($tool, docker, call).await
            }

            $(async fn complete(docker: &Docker, _: &str, value: &str) -> Vec<String> {
                $completions(docker, value).await
            })?
        }
    };
}

resource! {
    /// All containers, stopped ones too: state, health, ports, compose project.
    ContainersResource, "Containers", uri::CONTAINERS, [] => ListContainers::all()
}
resource! {
    /// One container, by name or id: state, health, configuration, mounts, networks.
    ContainerResource, "Container", CONTAINER_TEMPLATE,
    [id: ContainerName] => GetContainer::new(id), container_names
}
resource! {
    /// The newest lines of a container's log.
    LogsResource, "Container log", "docker://containers/{id}/logs",
    [id: ContainerName] => GetContainerLogs::new(id), container_names
}
resource! {
    /// CPU, memory, network and disk usage of a running container.
    StatsResource, "Container statistics", "docker://containers/{id}/stats",
    [id: ContainerName] => GetContainerStats::new(id), container_names
}
resource! {
    /// The images of the engine: tags, size, age.
    ImagesResource, "Images", uri::IMAGES, [] => ListImages::default()
}
resource! {
    /// The compose projects with the state and health of their services.
    ProjectsResource, "Compose projects", uri::COMPOSE, [] => ListComposeProjects::new(None)
}
resource! {
    /// One compose project: state, health and ports of its services.
    ProjectResource, "Compose project", "docker://compose/{project}",
    [project: ObjectName] => ListComposeProjects::new(Some(project)), project_names
}
