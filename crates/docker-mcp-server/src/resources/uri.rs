//! The URIs of the resources.

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

/// One container, its log, and its resource usage.
pub(crate) fn all_of_container(name: &str) -> [String; 3] {
    ["", "/logs", "/stats"].map(|part| format!("{CONTAINERS}/{name}{part}"))
}

/// One compose project.
pub(crate) fn project(name: &str) -> String {
    format!("{COMPOSE}/{name}")
}
