//! `list_compose_projects`.

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list_containers::health;
use super::{fit, ports};
use crate::compose;
use crate::docker::Docker;
use crate::engine::Summary;
use crate::name::ObjectName;
use crate::redact::Redactor;

/// Bytes of rows in an answer, which has them twice.
const MAX_BYTES: usize = 6_500;

/// List compose projects with state and health of their services.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListComposeProjects {
    /// Only this one, with ports.
    project: Option<ObjectName>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Projects {
    projects: Vec<Project>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

#[derive(Serialize, JsonSchema)]
struct Project {
    project: String,
    running: usize,
    containers: usize,
    unhealthy: usize,
    /// On the host where it was brought up.
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_files: Option<String>,
    services: Vec<Service>,
}

#[derive(Serialize, JsonSchema)]
struct Service {
    service: String,
    container: String,
    state: String,
    /// `Up 5 minutes`, `Exited (1) 2 hours ago`.
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<String>,
}

impl Tool for ListComposeProjects {
    const NAME: &'static str = "list_compose_projects";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Projects;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Projects, ToolError> {
        let mut redactor = docker.redactor();
        let rows = match &self.project {
            Some(name) => {
                let containers = compose::project(docker, name).await?;
                vec![Project::new(
                    name.as_str(),
                    &containers,
                    true,
                    &mut redactor,
                )]
            }
            None => {
                let projects = compose::projects(docker).await?;
                let rows = projects.iter();
                rows.map(|(name, containers)| Project::new(name, containers, false, &mut redactor))
                    .collect()
            }
        };
        let is_empty = rows.is_empty();
        let (projects, omitted) = fit(rows, MAX_BYTES);
        let note = match (is_empty, omitted) {
            (true, _) => Some("No container has the labels of compose."),
            (false, 0) => None,
            _ => Some("Ask for one by `project`."),
        };
        Ok(Projects {
            projects,
            omitted: (omitted > 0).then_some(omitted),
            note,
        })
    }
}

impl Project {
    fn new(name: &str, containers: &[Summary], full: bool, redactor: &mut Redactor) -> Self {
        let count = |wanted: &dyn Fn(&Summary) -> bool| {
            containers
                .iter()
                .filter(|container| wanted(container))
                .count()
        };
        let label = |key: &str| containers.first()?.labels.get(key);
        Self {
            project: redactor.text(name),
            running: count(&|container| container.state == "running"),
            containers: containers.len(),
            unhealthy: count(&|container| health(&container.status) == Some("unhealthy")),
            directory: label(compose::DIRECTORY).map(|path| redactor.text(path)),
            config_files: label(compose::FILES).map(|path| redactor.text(path)),
            services: containers
                .iter()
                .map(|container| Service {
                    service: redactor.text(compose::service(container)),
                    container: redactor.text(container.display_name()),
                    state: redactor.text(&container.state),
                    status: redactor.text(&container.status),
                    health: health(&container.status),
                    ports: match full {
                        true => ports::of_summary(&container.ports),
                        false => Vec::new(),
                    },
                })
                .collect(),
        }
    }
}
