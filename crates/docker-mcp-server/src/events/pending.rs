//! Changes that have not been told yet.

use std::collections::BTreeSet;
use std::time::Duration;

use mcp_core::server::{Change, Changes};

use crate::compose::PROJECT;
use crate::engine::{Event, Summary};
use crate::resources::uri;

/// After so many changes those who listen get time to keep up: whoever lags behind is told only
/// that everything may have changed.
const BURST: usize = 32;
const BURST_PAUSE: Duration = Duration::from_millis(2);

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

    /// Tells those who listen. What nobody has subscribed to is not told at all: in the crowd of it
    /// somebody who is slow would miss what concerns her.
    pub(super) async fn announce(mut self, changes: &Changes) {
        let watched = changes.watched();
        self.uris.retain(|uri| watched.borrow().contains_key(uri));
        for (number, uri) in self.uris.into_iter().enumerate() {
            if number % BURST == BURST - 1 {
                tokio::time::sleep(BURST_PAUSE).await;
            }
            changes.announce(Change::Resource(uri));
        }
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
