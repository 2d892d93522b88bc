//! Resources: objects of the engine that can be read and subscribed to without a call of a tool.
//!
//! A resource holds what the tool of the same subject answers: so it is selected, bounded and
//! redacted in one place. What changes one is told by `events`.

mod containers;
mod listed;
mod others;
pub(crate) mod uri;

use mcp_core::resource::ResourceSet;

pub(crate) use listed::publish;
pub(crate) use others::project_names;

use crate::docker::Docker;
use crate::engine::ContainerSummary;

/// All resources and templates, in the order in which they are listed.
pub(crate) fn all() -> ResourceSet<Docker> {
    ResourceSet::new()
        .with::<containers::Containers>()
        .with::<containers::Container>()
        .with::<containers::Logs>()
        .with::<containers::Stats>()
        .with::<others::Images>()
        .with::<others::Projects>()
        .with::<others::Project>()
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
