//! Compose projects, told by the labels of their containers: no compose file or program is needed
//! to see them.

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;

use crate::Docker;
use crate::engine::Summary;
use crate::name::ObjectName;

pub(super) const PROJECT: &str = "com.docker.compose.project";
pub(super) const SERVICE: &str = "com.docker.compose.service";
pub(super) const DIRECTORY: &str = "com.docker.compose.project.working_dir";
pub(super) const FILES: &str = "com.docker.compose.project.config_files";

/// The containers of all projects that the rules leave in sight, by project; those of a project by
/// service and name.
pub(super) async fn projects(docker: &Docker) -> Result<BTreeMap<String, Vec<Summary>>, ToolError> {
    let mut projects: BTreeMap<String, Vec<Summary>> = BTreeMap::new();
    for container in docker.list(true).await? {
        if let Some(project) = container.labels.get(PROJECT) {
            projects.entry(project.clone()).or_default().push(container);
        }
    }
    for containers in projects.values_mut() {
        containers.sort_by_cached_key(|container| {
            (service(container).to_owned(), name(container).to_owned())
        });
    }
    Ok(projects)
}

/// The containers of one project.
///
/// # Errors
/// When there is none in sight; names those that are.
pub(super) async fn project(
    docker: &Docker,
    project: &ObjectName,
) -> Result<Vec<Summary>, ToolError> {
    let mut projects = projects(docker).await?;
    projects.remove(project.as_str()).ok_or_else(|| {
        let mut redactor = docker.redactor();
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

pub(super) fn service(container: &Summary) -> &str {
    container.labels.get(SERVICE).map_or("", String::as_str)
}

pub(super) fn name(container: &Summary) -> &str {
    let name = container.names.first().map_or("", String::as_str);
    name.trim_start_matches('/')
}
