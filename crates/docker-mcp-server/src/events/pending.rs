//! Changes that have not been told yet.

use std::collections::BTreeSet;

use mcp_core::server::ChangeNotifier;
use upstream::poll;

use crate::compose::PROJECT;
use crate::engine::{Event, Summary};
use crate::resources::uri;

/// Which resources changed.
#[derive(Debug, Default)]
pub(super) struct Pending {
    uris: BTreeSet<String>,
    /// There are other containers than before.
    listed: bool,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.uris.is_empty()
    }

    /// Whether there may be other containers than before.
    pub(super) fn changes_list(&self) -> bool {
        self.listed
    }

    /// The lists, and everything about these containers.
    pub(super) fn all(containers: &[Summary]) -> Self {
        let mut pending = Self {
            listed: true,
            ..Self::default()
        };
        let lists = [uri::CONTAINERS, uri::IMAGES, uri::COMPOSE];
        pending.uris.extend(lists.map(str::to_owned));
        for container in containers {
            pending.container(&container.id);
            for name in &container.names {
                pending.container(name);
            }
            let project = container.labels.get(PROJECT);
            pending
                .uris
                .extend(project.map(|project| uri::project(project)));
        }
        pending
    }

    /// What `event` changed.
    pub(super) fn add(&mut self, event: &Event) {
        match &*event.kind {
            "image" => _ = self.uris.insert(uri::IMAGES.to_owned()),
            "network" => {
                if let Some(container) = event.attribute("container") {
                    self.container(container);
                }
            }
            _ => self.container_event(event),
        }
    }

    fn container_event(&mut self, event: &Event) {
        self.uris.insert(uri::CONTAINERS.to_owned());
        self.container(event.id());
        // Clients may know it by any of these.
        let names = ["name", "oldName"].map(|name| event.attribute(name));
        for name in names.into_iter().flatten() {
            self.container(name);
        }
        if let Some(project) = event.attribute(PROJECT) {
            self.uris.insert(uri::COMPOSE.to_owned());
            self.uris.insert(uri::project(project));
        }
        let verb = event.verb();
        self.listed |= matches!(verb, "create" | "destroy" | "remove" | "removed" | "rename");
    }

    /// Everything about the container that clients call `name`, which may be an id.
    fn container(&mut self, name: &str) {
        let name = name.trim_start_matches('/');
        let is_id = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let short = is_id.then(|| &name[..12]);
        for name in [Some(name), short].into_iter().flatten() {
            self.uris
                .extend([uri::container(name), uri::logs(name), uri::stats(name)]);
        }
    }

    /// Tells those who have subscribed.
    pub(super) async fn announce(self, changes: &ChangeNotifier) {
        poll::announce(changes, self.uris).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(json: serde_json::Value) -> Event {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_container_is_known_by_all_its_names() {
        let id = "ab12".repeat(16);
        let mut pending = Pending::default();
        pending.add(&event(serde_json::json!({
            "Type": "container", "Action": "start",
            "Actor": {"ID": id, "Attributes": {"name": "web", "com.docker.compose.project": "shop"}},
        })));
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
        assert!(!pending.listed);
    }

    #[test]
    fn what_comes_and_goes_changes_the_list() {
        for action in ["create", "destroy", "remove", "rename"] {
            let mut pending = Pending::default();
            pending.add(&event(
                serde_json::json!({"Type": "container", "Action": action}),
            ));
            assert!(pending.listed, "{action}");
        }
        let mut pending = Pending::default();
        pending.add(&event(
            serde_json::json!({"Type": "image", "Action": "tag"}),
        ));
        assert_eq!(pending.uris.len(), 1);
    }
}
