//! Records what happens and notifies clients of changes, with one stream of the engine's events for all
//! of them.
//!
//! When the stream ends it is reopened from the last event. Events while the engine was down are
//! unknown, so everything counts as changed then.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::server::Server;
use tokio::time::{Instant, sleep_until, timeout};
use upstream::poll::{self, Backoff};
use upstream::time::Timestamp;

use crate::compose::{PROJECT, project_of};
use crate::docker::Docker;
use crate::engine::{ContainerSummary, Event};
use crate::resources;

/// Debounce of notifications: changes within this time are announced together, each once.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// A stream without events for so long is reopened: the connection may be dead.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Longest delay between two attempts to reach an engine that is down.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);
const RETRY_BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), MAX_RETRY_DELAY);
/// The timeout of the check whether the engine is up.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Follows the engine's events and announces what they change.
pub(crate) struct EventFollower {
    docker: Arc<Docker>,
    server: Arc<Server>,
    /// Unix nanoseconds of the first event that was not announced yet. Initially from our own clock,
    /// so that events while the first stream opens are announced too.
    since: i64,
}

impl EventFollower {
    pub(crate) fn new(docker: Arc<Docker>, server: Arc<Server>) -> Self {
        Self {
            docker,
            server,
            since: now(),
        }
    }

    /// Runs until the server stops, even if the engine goes down.
    pub(crate) async fn run(mut self) {
        // Whether a stream has ended, so that events may have been missed.
        let mut broken = false;
        let mut is_followed = false;
        let mut delays = RETRY_BACKOFF.delays();
        loop {
            let is_up = self.docker.engine.version(PROBE_TIMEOUT).await.is_ok()
                && self.catch_up(broken).await;
            self.docker.changes.lists_published();
            if is_up {
                let began = Instant::now();
                // What happened while the stream was broken may be unknown.
                let known = if broken { now() } else { self.since };
                if broken || !is_followed {
                    self.docker.history.begin(known);
                    self.docker.broken_off.notify_one();
                }
                is_followed = true;
                broken = self.stream().await;
                if broken {
                    self.docker.history.lose(now() / 1_000_000_000);
                }
                if began.elapsed() > MAX_RETRY_DELAY {
                    delays.reset();
                }
            }
            delays.sleep().await;
        }
    }

    /// Announces the events of one stream. Returns true if the stream broke.
    async fn stream(&mut self) -> bool {
        let mut events = self.docker.engine.events(self.since);
        let mut pending = PendingChanges::default();
        let mut due = Instant::now();
        let broken = loop {
            tokio::select! {
                event = timeout(IDLE_TIMEOUT, events.next()) => match event {
                    Ok(Ok(Some(event))) => {
                        self.since = event.nanos().saturating_add(1);
                        if self.docker.may_see_event(&event) {
                            self.docker.history.record(&event);
                        }
                        let is_first = pending.is_empty();
                        pending.add(&event);
                        if is_first {
                            due = Instant::now() + DEBOUNCE;
                        }
                    }
                    Ok(Ok(None)) => break true,
                    Ok(Err(failure)) => {
                        tracing::debug!("the event stream broke: {failure:?}");
                        break true;
                    }
                    Err(_) => break false,
                },
                () = sleep_until(due), if !pending.is_empty() => {
                    self.announce(std::mem::take(&mut pending)).await;
                }
            }
        };
        self.announce(pending).await;
        broken
    }

    /// Publishes the current containers; after a reconnect, also marks everything as changed.
    /// Returns false if the engine is down again.
    async fn catch_up(&self, broken: bool) -> bool {
        if !broken {
            resources::publish(&self.docker, &self.server).await;
            return true;
        }
        let Ok(containers) = self.docker.containers(true).await else {
            return false;
        };
        self.announce(PendingChanges::all(&containers)).await;
        true
    }

    async fn announce(&self, pending: PendingChanges) {
        if pending.list_changed {
            resources::publish(&self.docker, &self.server).await;
        }
        poll::announce(&self.docker.changes, pending.uris).await;
    }
}

/// Unix nanoseconds.
fn now() -> i64 {
    i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}

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
        let lists = [resources::CONTAINERS, resources::IMAGES, resources::COMPOSE];
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
            pending
                .uris
                .extend(project.map(|name| resources::project_uri(name)));
        }
        pending
    }

    /// Marks the resources that `event` changed.
    pub(super) fn add(&mut self, event: &Event) {
        match &*event.kind {
            "image" => _ = self.uris.insert(resources::IMAGES.to_owned()),
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
        self.uris.insert(resources::CONTAINERS.to_owned());
        self.container(event.id());
        // Clients may use any of these names.
        let names = ["name", "oldName"].map(|name| event.attribute(name));
        for name in names.into_iter().flatten() {
            self.container(name);
        }
        if let Some(project) = event.attribute(PROJECT) {
            self.uris.insert(resources::COMPOSE.to_owned());
            self.uris.insert(resources::project_uri(project));
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
            self.uris.extend(resources::uris_of_container(name));
        }
    }
}
