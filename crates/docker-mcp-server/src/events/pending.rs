//! Changes that have not been announced yet.

use std::collections::BTreeSet;

use crate::compose::{PROJECT, project_of};
use crate::engine::{ContainerSummary, Event};
use crate::resources::uri;

/// The URIs of changed resources.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    pub(super) uris: BTreeSet<String>,
    /// The list of containers may have changed.
    pub(super) list_changed: bool,
}

impl PendingChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.uris.is_empty()
    }

    /// Marks the lists and every resource of these containers.
    pub(super) fn all(containers: &[ContainerSummary]) -> Self {
        let lists = [uri::CONTAINERS, uri::IMAGES, uri::COMPOSE];
        let mut pending = Self {
            uris: lists.map(str::to_owned).into(),
            list_changed: true,
        };
        for container in containers {
            pending.container(&container.id);
            for name in &container.names {
                pending.container(name);
            }
            let project = project_of(&container.labels);
            pending.uris.extend(project.map(|name| uri::project(name)));
        }
        pending
    }

    /// Marks the resources that `event` changed.
    pub(super) fn add(&mut self, event: &Event) {
        match &*event.kind {
            "image" => _ = self.uris.insert(uri::IMAGES.to_owned()),
            "network" => {
                if let Some(container) = event.attribute("container") {
                    self.container(container);
                }
            }
            "volume" | "daemon" => {}
            _ => self.container_event(event),
        }
    }

    fn container_event(&mut self, event: &Event) {
        self.uris.insert(uri::CONTAINERS.to_owned());
        self.container(event.id());
        // Clients may use any of these names.
        let names = ["name", "oldName"].map(|name| event.attribute(name));
        for name in names.into_iter().flatten() {
            self.container(name);
        }
        if let Some(project) = event.attribute(PROJECT) {
            self.uris.insert(uri::COMPOSE.to_owned());
            self.uris.insert(uri::project(project));
        }
        let verb = event.verb();
        self.list_changed |= matches!(verb, "create" | "destroy" | "remove" | "removed" | "rename");
    }

    /// Marks every resource of the container `name`, which may be an id.
    fn container(&mut self, name: &str) {
        let name = name.trim_start_matches('/');
        let is_id = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        // Docker shows and accepts the first 12 digits.
        let short = is_id.then(|| &name[..12]);
        for name in [Some(name), short].into_iter().flatten() {
            self.uris.extend(uri::all_of_container(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changes(event: serde_json::Value) -> PendingChanges {
        let mut pending = PendingChanges::default();
        pending.add(&serde_json::from_value(event).unwrap());
        pending
    }

    #[test]
    fn an_event_changes_the_uris_of_all_names_of_a_container() {
        let id = "ab12".repeat(16);
        let pending = changes(json!({
            "Type": "container", "Action": "start",
            "Actor": {"ID": id, "Attributes": {"name": "web", "com.docker.compose.project": "shop"}},
        }));
        for expected in [
            "docker://containers",
            "docker://containers/web",
            "docker://containers/web/logs",
            "docker://containers/ab12ab12ab12/stats",
            &format!("docker://containers/{id}"),
            "docker://compose",
            "docker://compose/shop",
        ] {
            assert!(pending.uris.contains(expected), "{expected}");
        }
        assert!(!pending.list_changed);
    }

    #[test]
    fn new_and_removed_containers_change_the_list() {
        for action in ["create", "destroy", "remove", "rename"] {
            let pending = changes(json!({"Type": "container", "Action": action}));
            assert!(pending.list_changed, "{action}");
        }
        let pending = changes(json!({"Type": "image", "Action": "tag"}));
        assert_eq!(pending.uris.len(), 1);
    }
}
