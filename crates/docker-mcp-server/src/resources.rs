//! Resources: objects of the engine that can be read and subscribed to without a tool call.
//!
//! A resource holds the answer of a tool, so filtering, truncation and redaction are in one place. The
//! module `events` announces changes.

mod definitions;
mod listed;
pub(crate) mod uri;

use mcp_core::resource::ResourceSet;

pub(crate) use listed::publish;

use crate::compose;
use crate::docker::Docker;
use crate::engine::ContainerSummary;

/// All resources and templates, in the order in which they are listed.
pub(crate) fn all() -> ResourceSet<Docker> {
    ResourceSet::new()
        .with::<definitions::ContainersResource>()
        .with::<definitions::ContainerResource>()
        .with::<definitions::LogsResource>()
        .with::<definitions::StatsResource>()
        .with::<definitions::ImagesResource>()
        .with::<definitions::ProjectsResource>()
        .with::<definitions::ProjectResource>()
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
