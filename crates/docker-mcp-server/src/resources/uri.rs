//! The URIs of the resources, for those who announce that one has changed.

/// All containers.
pub(crate) const CONTAINERS: &str = "docker://containers";
/// All images.
pub(crate) const IMAGES: &str = "docker://images";
/// All compose projects.
pub(crate) const COMPOSE: &str = "docker://compose";
/// One container, by name or id.
pub(crate) fn container(name: &str) -> String {
    format!("{CONTAINERS}/{name}")
}

/// The end of its log.
pub(crate) fn logs(name: &str) -> String {
    format!("{CONTAINERS}/{name}/logs")
}

/// What it uses.
pub(crate) fn stats(name: &str) -> String {
    format!("{CONTAINERS}/{name}/stats")
}

/// One compose project.
pub(crate) fn project(name: &str) -> String {
    format!("{COMPOSE}/{name}")
}
