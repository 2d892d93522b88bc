//! Compose projects, told by the labels of their containers: no compose file or program is needed
//! to see them.

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;

use crate::docker::Docker;
use crate::engine::Summary;
use crate::name::ObjectName;

/// The label that says to which project a container belongs.
pub(crate) const PROJECT: &str = "com.docker.compose.project";
/// The label that says which of its services it is.
pub(crate) const SERVICE: &str = "com.docker.compose.service";
/// The labels that say where the project was brought up, and of which files.
pub(crate) const DIRECTORY: &str = "com.docker.compose.project.working_dir";
pub(crate) const FILES: &str = "com.docker.compose.project.config_files";

/// The containers of all projects that the rules leave in sight, by project; those of a project by
/// service and name.
pub(crate) async fn projects(docker: &Docker) -> Result<BTreeMap<String, Vec<Summary>>, ToolError> {
    let mut projects: BTreeMap<String, Vec<Summary>> = BTreeMap::new();
    for container in docker.containers(true).await? {
        if let Some(project) = container.labels.get(PROJECT) {
            projects.entry(project.clone()).or_default().push(container);
        }
    }
    for containers in projects.values_mut() {
        containers.sort_by_cached_key(|container| {
            let name = container.display_name();
            (service(container).to_owned(), name.to_owned())
        });
    }
    Ok(projects)
}

/// The containers of one project.
/// Errors when there is none in sight; names those that are.
pub(crate) async fn project(
    docker: &Docker,
    project: &ObjectName,
) -> Result<Vec<Summary>, ToolError> {
    let mut projects = projects(docker).await?;
    projects.remove(project.as_str()).ok_or_else(|| {
        let redactor = docker.redactor();
        let known: Vec<String> = projects
            .keys()
            .take(10)
            .map(|name| redactor.text(name))
            .collect();
        let known = match known.as_slice() {
            [] => "There are none.".to_owned(),
            known => format!("There are: {}.", known.join(", ")),
        };
        ToolError::not_found(format!("There is no compose project `{project}`. {known}"))
    })
}

/// The service of its project that a container is.
pub(crate) fn service(container: &Summary) -> &str {
    container.labels.get(SERVICE).map_or("", String::as_str)
}
