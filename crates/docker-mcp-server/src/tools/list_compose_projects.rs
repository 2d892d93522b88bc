//! `list_compose_projects`.

use super::list_containers::health;
use super::prelude::*;
use crate::compose;
use crate::engine::{ContainerSummary, ports};

/// Services of a project that are shown beside other projects.
const MAX_SERVICES: usize = 20;

/// List compose projects with state and health of their services.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListComposeProjects {
    /// Only this one, with images and ports.
    project: Option<ObjectName>,
    /// Rows to skip; of one project: services.
    offset: Option<u32>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Projects {
    projects: Vec<ProjectRow>,
    omitted: Option<usize>,
    note: Option<String>,
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
    omitted_services: Option<usize>,
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
        let (projects, omitted, note) = match &self.project {
            Some(name) => {
                let containers = compose::project(docker, name).await?;
                let mut row = ProjectRow::new(name.as_str(), &containers, true, &redactor);
                let (services, omitted, note) = page(row.services, self.offset, usize::MAX);
                row.services = services;
                row.omitted_services = omitted;
                (vec![row], None, note)
            }
            None => {
                let projects = compose::projects(docker).await?;
                let rows = projects.iter().map(|(name, containers)| {
                    let mut row = ProjectRow::new(name, containers, false, &redactor);
                    row.omitted_services =
                        positive(row.services.len().saturating_sub(MAX_SERVICES));
                    row.services.truncate(MAX_SERVICES);
                    row
                });
                let (rows, omitted, next) = page(rows, self.offset, usize::MAX);
                let none = "No container has the labels of compose.".to_owned();
                (rows, omitted, next.or(projects.is_empty().then_some(none)))
            }
        };
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
        Self {
            project,
            offset: None,
        }
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
            omitted_services: None,
        }
    }
}
