//! Resources: objects of the engine that can be read and subscribed to without a tool call.
//!
//! A resource holds the answer of a tool, so filtering, truncation and redaction are in one place. The
//! module `events` announces changes.

use std::sync::Arc;

use mcp_core::resource::{Resource, ResourceContents, ResourceDefinition, ResourceSet};
use mcp_core::server::{Server, ServerItems};
use mcp_core::tool::{Call, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use upstream::redact::Redactor;
use upstream::resource::from_tool;

use crate::compose;
use crate::docker::Docker;
use crate::engine::{ContainerName, ContainerSummary, ObjectName};
use crate::tools::{
    GetContainer, GetContainerLogs, GetContainerStats, ListComposeProjects, ListContainers,
    ListImages,
};

/// All resources and templates, in the order in which they are listed.
pub(crate) fn all() -> ResourceSet<Docker> {
    ResourceSet::new()
        .with::<ContainersResource>()
        .with::<ContainerResource>()
        .with::<LogsResource>()
        .with::<StatsResource>()
        .with::<ImagesResource>()
        .with::<ProjectsResource>()
        .with::<ProjectResource>()
}

/// Up to 100 names of containers that begin with `value`.
pub(crate) async fn container_names(docker: &Docker, value: &str) -> Vec<String> {
    let listed = docker.containers(true).await.unwrap_or_default();
    let names = listed.iter().map(ContainerSummary::display_name);
    let mut names: Vec<String> = names
        .filter(|name| !name.is_empty() && name.starts_with(value))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.truncate(100);
    names
}

/// Up to 100 names of compose projects that begin with `value`.
pub(crate) async fn project_names(docker: &Docker, value: &str) -> Vec<String> {
    let projects = compose::projects(docker).await.unwrap_or_default();
    let fitting = projects.into_keys().filter(|name| name.starts_with(value));
    fitting.take(100).collect()
}

/// The template of a container's URI.
pub(super) const CONTAINER_TEMPLATE: &str = "docker://containers/{id}";

/// Declares a resource: its type, name and URI, the variables of the URI in brackets, the tool and the arguments of the
/// call that it holds the answer of, and the function that completes its variable.
macro_rules! resource {
    (
        $(#[$documentation:meta])*
        $type:ident, $name:literal, $uri:expr,
        [$($variable:ident: $syntax:ty)?] => $tool:ident $arguments:tt $(, $completions:ident)?
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
                let tool = serde_json::from_value::<$tool>(json!($arguments));
                let tool = tool.map_err(|error| ToolError::invalid_argument(error.to_string()))?;
                from_tool(tool, docker, call).await
            }

            $(async fn complete(docker: &Docker, _: &str, value: &str) -> Vec<String> {
                $completions(docker, value).await
            })?
        }
    };
}

resource! {
    /// All containers, stopped ones too: state, health, ports, compose project.
    ContainersResource, "Containers", CONTAINERS, [] => ListContainers {"all": true}
}
resource! {
    /// One container, by name or id: state, health, configuration, mounts, networks.
    ContainerResource, "Container", CONTAINER_TEMPLATE,
    [id: ContainerName] => GetContainer {"container": id}, container_names
}
resource! {
    /// The newest lines of a container's log.
    LogsResource, "Container log", "docker://containers/{id}/logs",
    [id: ContainerName] => GetContainerLogs {"container": id}, container_names
}
resource! {
    /// CPU, memory, network and disk usage of a running container.
    StatsResource, "Container statistics", "docker://containers/{id}/stats",
    [id: ContainerName] => GetContainerStats {"container": id}, container_names
}
resource! {
    /// The images of the engine: tags, size, age.
    ImagesResource, "Images", IMAGES, [] => ListImages {}
}
resource! {
    /// The compose projects with the state and health of their services.
    ProjectsResource, "Compose projects", COMPOSE, [] => ListComposeProjects {}
}
resource! {
    /// One compose project: state, health and ports of its services.
    ProjectResource, "Compose project", "docker://compose/{project}",
    [project: ObjectName] => ListComposeProjects {"project": project}, project_names
}

/// Most containers that are listed, the newest; the others can still be read.
const MAX_LISTED: usize = 50;
/// Most containers that are requested, before the policy filters them.
const MAX_REQUESTED: usize = 200;

/// Publishes the current containers as resources of `server`, which notifies clients of changes. Does
/// nothing if the engine is down.
pub(crate) async fn publish(docker: &Arc<Docker>, server: &Server) {
    let Ok(listed) = docker.engine.newest_containers(MAX_REQUESTED).await else {
        return;
    };
    let mut listed = docker.visible(listed);
    listed.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
    let mut own = all().bind(docker).into_iter();
    let of_container = own.find(|(own, _)| own.uri == CONTAINER_TEMPLATE);
    let Some((template, resource)) = of_container else {
        return;
    };
    let redactor = docker.redactor();
    let listed = listed.iter();
    let listed = listed.filter_map(|container| definition(container, &template, &redactor));
    let resources = listed.map(|definition| (definition, Arc::clone(&resource)));
    server.publish(ServerItems {
        resources: resources.take(MAX_LISTED).collect(),
        ..ServerItems::default()
    });
}

fn definition(
    container: &ContainerSummary,
    template: &ResourceDefinition,
    redactor: &Redactor,
) -> Option<ResourceDefinition> {
    // A container that could not be parsed has no name.
    let name = Some(container.display_name()).filter(|name| !name.is_empty())?;
    Some(ResourceDefinition {
        uri: container_uri(name).into(),
        name: name.to_owned().into(),
        // Only what never changes, since a new description would notify all clients.
        description: format!(
            "Container of the image {}.",
            redactor.text(&container.image)
        ),
        ..template.clone()
    })
}

pub(crate) const CONTAINERS: &str = "docker://containers";
pub(crate) const IMAGES: &str = "docker://images";
pub(crate) const COMPOSE: &str = "docker://compose";

fn container_uri(name: &str) -> String {
    format!("{CONTAINERS}/{name}")
}

/// One container, its log, and its resource usage.
pub(crate) fn uris_of_container(name: &str) -> [String; 3] {
    ["", "/logs", "/stats"].map(|part| format!("{CONTAINERS}/{name}{part}"))
}

pub(crate) fn project_uri(name: &str) -> String {
    format!("{COMPOSE}/{name}")
}
