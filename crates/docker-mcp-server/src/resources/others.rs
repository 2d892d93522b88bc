//! `docker://images` and `docker://compose`.

use mcp_core::resource::{Resource, ResourceContents};
use mcp_core::tool::{Call, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use upstream::resource::from_tool;

use super::uri;
use crate::compose;
use crate::docker::Docker;
use crate::name::ObjectName;
use crate::tools::{ListComposeProjects, ListImages};

const JSON: &str = "application/json";

/// The images of the engine: tags, size, age.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Images {}

impl Resource for Images {
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
pub(super) struct Projects {}

impl Resource for Projects {
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
pub(super) struct Project {
    project: ObjectName,
}

impl Resource for Project {
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

/// Up to 100 names of compose projects that begin with `value`.
pub(crate) async fn project_names(docker: &Docker, value: &str) -> Vec<String> {
    let projects = compose::projects(docker).await.unwrap_or_default();
    let fitting = projects.into_keys().filter(|name| name.starts_with(value));
    fitting.take(100).collect()
}
