//! `list_compose_projects`.

use docker_engine::{ContainerSummary, ports};

use super::list_containers::health;
use super::prelude::*;
use crate::compose;

/// Bytes of rows in an answer, which contains them twice.
const MAX_BYTES: usize = 6_500;

/// List compose projects with state and health of their services.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListComposeProjects {
    /// Only this one, with images and ports.
    project: Option<ObjectName>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Projects {
    projects: Vec<ProjectRow>,
    omitted: Option<usize>,
    note: Option<&'static str>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct ProjectRow {
    project: String,
    running: usize,
    containers: usize,
    unhealthy: usize,
    /// On the host where it was brought up.
    directory: Option<String>,
    config_files: Option<String>,
    services: Vec<ServiceRow>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct ServiceRow {
    service: String,
    container: String,
    state: String,
    /// `Up 5 minutes`, `Exited (1) 2 hours ago`.
    status: String,
    image: Option<String>,
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
                vec![ProjectRow::new(name.as_str(), &containers, true, &redactor)]
            }
            None => {
                let projects = compose::projects(docker).await?;
                let row = |(name, list): (&String, &Vec<_>)| {
                    ProjectRow::new(name, list, false, &redactor)
                };
                projects.iter().map(row).collect()
            }
        };
        let no_project = rows
            .is_empty()
            .then_some("No container has the labels of compose.");
        let (projects, omitted) = fit(rows, MAX_BYTES);
        let note = no_project.or(omitted.map(|_| "Pass `project` to see one."));
        Ok(Projects {
            projects,
            omitted,
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

impl ProjectRow {
    fn new(name: &str, containers: &[ContainerSummary], full: bool, redactor: &Redactor) -> Self {
        let label = |key: &str| Some(redactor.text(containers.first()?.labels.get(key)?));
        let services = containers.iter().map(|container| ServiceRow {
            service: redactor.text(compose::service(container)),
            container: redactor.text(container.display_name()),
            state: redactor.text(&container.state),
            status: redactor.text(&container.status),
            image: full.then(|| redactor.text(&container.image)),
            health: health(&container.status),
            ports: match full {
                true => ports::from_summary(&container.ports),
                false => Vec::new(),
            },
        });
        let services: Vec<_> = services.collect();
        let count =
            |is_counted: fn(&&ServiceRow) -> bool| services.iter().filter(is_counted).count();
        Self {
            project: redactor.text(name),
            running: count(|service| service.state == "running"),
            containers: containers.len(),
            unhealthy: count(|service| service.health == Some("unhealthy")),
            directory: label(compose::DIRECTORY),
            config_files: label(compose::FILES),
            services,
        }
    }
}
