//! `list_compose_projects`.

use upstream::redact::Redactor;

use super::list_containers::health;
use super::ports;
use super::prelude::*;
use crate::compose;
use crate::engine::ContainerSummary;

/// Bytes of rows in an answer, which has them twice.
const MAX_BYTES: usize = 6_500;

/// List compose projects with state and health of their services.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListComposeProjects {
    /// Only this one, with ports.
    project: Option<ObjectName>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Projects {
    projects: Vec<Project>,
    omitted: Option<usize>,
    note: Option<&'static str>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct Project {
    project: String,
    running: usize,
    containers: usize,
    unhealthy: usize,
    /// On the host where it was brought up.
    directory: Option<String>,
    config_files: Option<String>,
    services: Vec<Service>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct Service {
    service: String,
    container: String,
    state: String,
    /// `Up 5 minutes`, `Exited (1) 2 hours ago`.
    status: String,
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
        let redactor = docker.redactor();
        let rows = match &self.project {
            Some(name) => {
                let containers = compose::project(docker, name).await?;
                vec![Project::new(name.as_str(), &containers, true, &redactor)]
            }
            None => {
                let projects = compose::projects(docker).await?;
                let rows = projects.iter();
                rows.map(|(name, containers)| Project::new(name, containers, false, &redactor))
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

impl ListComposeProjects {
    /// All projects, or one of them.
    pub(crate) fn new(project: Option<ObjectName>) -> Self {
        Self { project }
    }
}

impl Project {
    fn new(name: &str, containers: &[ContainerSummary], full: bool, redactor: &Redactor) -> Self {
        let count = |wanted: &dyn Fn(&ContainerSummary) -> bool| {
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
