//! Compose projects, found by the labels of their containers: to see them needs no compose file or program.
//!
//! An image that compose builds has labels with its project and service, too, and every container of such an image
//! inherits them. Those that compose made also have the hash of their configuration; networks and volumes that it
//! made have the name that the compose file gives them.

mod model;

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;

use crate::docker::Docker;
use crate::engine::{ContainerDetails, ContainerName, ContainerSummary, ObjectName};
use crate::policy::CREATED;

pub(crate) use model::{ComposeModel, UpOptions};

/// The label with the project of a container.
pub(crate) const PROJECT: &str = "com.docker.compose.project";
/// The label with the service of a container.
const SERVICE: &str = "com.docker.compose.service";
/// The labels that only a container has which Docker's or Podman's compose made.
const CONFIG_HASHES: [&str; 2] = [
    "com.docker.compose.config-hash",
    "io.podman.compose.config-hash",
];
/// The labels of a network or volume with its name in the compose file.
pub(crate) const NETWORK: &str = "com.docker.compose.network";
pub(crate) const VOLUME: &str = "com.docker.compose.volume";
/// The label of a container that runs a single command.
const ONE_OFF: &str = "com.docker.compose.oneoff";
/// The labels with the directory and the compose files of the project.
pub(crate) const DIRECTORY: &str = "com.docker.compose.project.working_dir";
pub(crate) const FILES: &str = "com.docker.compose.project.config_files";

/// The project of a container with these labels; `None` if compose did not make it.
pub(crate) fn project_of(labels: &BTreeMap<String, String>) -> Option<&String> {
    let is_made = CONFIG_HASHES
        .iter()
        .any(|label| labels.contains_key(*label));
    labels.get(PROJECT).filter(|_| is_made)
}

/// The service of a container with these labels; `None` if compose did not make it.
pub(crate) fn service_name(labels: &BTreeMap<String, String>) -> Option<&String> {
    project_of(labels).and(labels.get(SERVICE))
}

/// The visible containers of all projects, by project; within a project by service and name.
pub(crate) async fn projects(
    docker: &Docker,
) -> Result<BTreeMap<String, Vec<ContainerSummary>>, ToolError> {
    let mut projects: BTreeMap<String, Vec<ContainerSummary>> = BTreeMap::new();
    for container in docker.containers(true).await? {
        if let Some(project) = project_of(&container.labels) {
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

/// The containers of a project that may be changed, with those that run a single command.
/// Errors when it has one that must not be changed, a hidden one included.
pub(crate) async fn mutable(
    docker: &Docker,
    project: &str,
) -> Result<Vec<ContainerDetails>, ToolError> {
    let mut containers = Vec::new();
    for container in docker.engine.containers(true).await? {
        if project_of(&container.labels).is_some_and(|name| name == project)
            && let Ok(id) = ContainerName::new(&container.id)
        {
            containers.push(docker.mutable_container(&id).await?);
        }
    }
    Ok(containers)
}

/// Whether a project was created by this server alone; also true of one that does not exist.
/// Errors when it has a container that must not be changed, a hidden one included.
pub(crate) async fn is_own(docker: &Docker, project: &str) -> Result<bool, ToolError> {
    let containers = mutable(docker, project).await?;
    let is_own = |at: &ContainerDetails| at.config.labels.contains_key(CREATED);
    Ok(containers.iter().all(is_own))
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
    containers.retain(|at| !is_one_off(at));
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

/// Whether it runs a single command: `docker compose run` made it, and `docker compose down` leaves it.
pub(crate) fn is_one_off(container: &ContainerSummary) -> bool {
    container
        .labels
        .get(ONE_OFF)
        .is_some_and(|value| value == "True")
}

/// The compose service that a container belongs to; empty if none.
pub(crate) fn service(container: &ContainerSummary) -> &str {
    service_name(&container.labels).map_or("", String::as_str)
}
