//! What the tests of the Docker server have beside the first engine: one of a newer generation,
//! Podman, and the compose program. Where one cannot be had, its tests are skipped.

use std::ffi::OsString;
use std::path::PathBuf;
use std::thread;

use crate::console::line;
use crate::layout::Layout;
use crate::services::{Place, Service, docker};

use super::real::Running;

/// What of it there is.
#[derive(Debug, Default)]
pub(super) struct Engines {
    newer: Option<Running>,
    podman: Option<Running>,
    compose: Option<PathBuf>,
}

impl Engines {
    /// Fetches and starts all of it, side by side.
    pub(super) fn start(layout: &Layout) -> Self {
        if Service::Docker.obstacle(layout).is_some() {
            // The first engine says why.
            return Self::default();
        }
        thread::scope(|scope| {
            let newer = scope.spawn(|| start_newer(layout));
            let podman = scope.spawn(|| start_podman(layout));
            let compose = scope.spawn(|| docker::compose::install(layout));
            Self {
                newer: there("docker 26", newer.join()),
                podman: there("podman", podman.join()),
                compose: there("compose", compose.join()),
            }
        })
    }

    /// What the tests have to know to find it.
    pub(super) fn environment(&self) -> impl Iterator<Item = (&'static str, OsString)> {
        let host = |running: &Running| docker::host(&running.place).into();
        let newer = self.newer.as_ref().map(host);
        let podman = self.podman.as_ref().map(host);
        let compose = self.compose.clone().map(OsString::from);
        let newer = newer.map(|host| ("MCP_TEST_DOCKER_HOSTS", host));
        let podman = podman.map(|host| ("MCP_TEST_PODMAN_HOST", host));
        let compose = compose.map(|folder| ("MCP_TEST_COMPOSE_DIR", folder));
        newer.into_iter().chain(podman).chain(compose)
    }

    /// What runs, to be ended.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Running> {
        self.newer.take().into_iter().chain(self.podman.take())
    }
}

/// What has started, or a line that says why it has not.
fn there<T>(who: &str, started: thread::Result<anyhow::Result<T>>) -> Option<T> {
    let started = started.unwrap_or_else(|_| Err(anyhow::anyhow!("the start failed")));
    let there = started.map_err(|error| line(format_args!("{who}: not tested, {error:#}")));
    there.ok()
}

/// The first engine is fetched before: the others share its runtime.
fn start_newer(layout: &Layout) -> anyhow::Result<Running> {
    let service = Service::Docker;
    service.install(layout)?;
    docker::newer::install(layout)?;
    let place = Place::take_newer_docker(layout)?;
    place.clear()?;
    let process = docker::start_newer(layout, &place, "dockerd-26-test")?;
    Ok(Running {
        service,
        process,
        place,
    })
}

fn start_podman(layout: &Layout) -> anyhow::Result<Running> {
    let service = Service::Docker;
    service.install(layout)?;
    docker::podman::install(layout)?;
    let place = Place::take_podman(layout)?;
    place.clear()?;
    let process = docker::podman::start(layout, &place)?;
    Ok(Running {
        service,
        process,
        place,
    })
}
