//! Compose projects, found by the labels of their containers: this needs no compose file or program.

mod files;
mod model;
mod order;

use std::collections::BTreeMap;

use docker_engine::{ContainerName, ContainerSummary, ObjectName};
use mcp_core::tool::ToolError;

use crate::docker::Docker;
use crate::policy::CREATED;

pub(crate) use files::project_files;
pub(crate) use model::{ComposeModel, UpOptions};
pub(crate) use order::{in_order, is_of, needs};

/// The label with the project of a container.
pub(crate) const PROJECT: &str = "com.docker.compose.project";
/// The label with the service of a container.
pub(crate) const SERVICE: &str = "com.docker.compose.service";
/// The label of a container that runs a single command.
const ONE_OFF: &str = "com.docker.compose.oneoff";
/// The labels with the directory and the compose files of the project.
pub(crate) const DIRECTORY: &str = "com.docker.compose.project.working_dir";
pub(crate) const FILES: &str = "com.docker.compose.project.config_files";

/// The visible containers of all projects, by project; within a project by service and name.
pub(crate) async fn projects(
    docker: &Docker,
) -> Result<BTreeMap<String, Vec<ContainerSummary>>, ToolError> {
    let mut projects: BTreeMap<String, Vec<ContainerSummary>> = BTreeMap::new();
    for container in docker.containers(true).await? {
        if let Some(project) = container.labels.get(PROJECT) {
            projects.entry(project.clone()).or_default().push(container);
        }
    }
    let key = |container: &ContainerSummary| {
        let name = container.display_name();
        (service(container).to_owned(), name.to_owned())
    };
    for containers in projects.values_mut() {
        containers.sort_by_cached_key(key);
    }
    Ok(projects)
}

/// Whether a project was created by this server alone; also true of one that does not exist.
/// Errors when it has a container that must not be changed, a hidden one included.
pub(crate) async fn is_own(docker: &Docker, project: &str) -> Result<bool, ToolError> {
    let mut is_own = true;
    for container in docker.engine.containers(true).await? {
        if container
            .labels
            .get(PROJECT)
            .is_some_and(|name| name == project)
            && let Ok(id) = ContainerName::new(&container.id)
        {
            docker.mutable_container(&id).await?;
            is_own &= container.labels.contains_key(CREATED);
        }
    }
    Ok(is_own)
}

/// The visible containers of one project.
/// Errors when it has no visible container; names the projects that exist.
pub(crate) async fn project(
    docker: &Docker,
    project: &ObjectName,
) -> Result<Vec<ContainerSummary>, ToolError> {
    let mut projects = projects(docker).await?;
    projects.remove(project.as_str()).ok_or_else(|| {
        let known = known_projects(docker, projects.keys());
        ToolError::not_found(format!("There is no compose project `{project}`. {known}"))
    })
}

/// The visible containers of one project, or of one of its services, without those of single commands.
/// Errors when it has no such container; names the services that exist.
pub(crate) async fn service_of(
    docker: &Docker,
    name: &ObjectName,
    wanted: Option<&str>,
) -> Result<Vec<ContainerSummary>, ToolError> {
    let mut containers = project(docker, name).await?;
    containers.retain(|at| at.labels.get(ONE_OFF).is_none_or(|value| value != "True"));
    let known: Vec<&str> = containers.iter().map(service).collect();
    let known = docker.redactor().text(&known.join(", "));
    containers.retain(|at| wanted.is_none_or(|wanted| service(at) == wanted));
    if containers.is_empty() {
        return Err(ToolError::not_found(format!(
            "`{name}` has no such service. It has: {known}."
        )));
    }
    Ok(containers)
}

/// A sentence that names the first of these projects.
pub(crate) fn known_projects<'a>(
    docker: &Docker,
    names: impl Iterator<Item = &'a String>,
) -> String {
    let redactor = docker.redactor();
    let known: Vec<String> = names.take(10).map(|name| redactor.text(name)).collect();
    match known.as_slice() {
        [] => "There are none.".to_owned(),
        known => format!("There are: {}.", known.join(", ")),
    }
}

/// The compose service that a container belongs to; empty if none.
pub(crate) fn service(container: &ContainerSummary) -> &str {
    container.labels.get(SERVICE).map_or("", String::as_str)
}
