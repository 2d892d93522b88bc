//! What is known about each container.

use std::fs;
use std::path::Path;

use futures_util::stream;
use tokio::time::Instant;
use upstream::time::Timestamp;

use crate::engine::{ContainerDetails, ContainerSummary};
use crate::stats::{self, Counters};
use crate::tools::prelude::*;
use crate::unix_time;

/// The time for the details of all containers.
const GATHER_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_CONCURRENT_REQUESTS: usize = 16;
/// A day, and the age of a young run, in seconds.
const DAY_SECONDS: i64 = 24 * 3600;
const YOUNG_SECONDS: i64 = 600;
/// CPU periods from which on their share is meaningful.
const MIN_PERIODS: u64 = 20;

/// A container as the engine and, if it is local, its machine show it.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) summary: ContainerSummary,
    pub(super) details: Option<ContainerDetails>,
    counters: Option<Counters>,
    /// The size of its log files; `None` if they are not visible.
    pub(super) log_bytes: Option<u64>,
}

impl Seen {
    /// All visible containers; details that do not arrive in time are missing.
    pub(super) async fn gather(docker: &Docker) -> Result<Vec<Self>, ToolError> {
        let listed = docker.containers(true).await?;
        let deadline = Instant::now() + GATHER_TIMEOUT;
        let seen = stream::iter(listed).map(|summary| async move {
            let read = Self::read(docker, &summary);
            let read = tokio::time::timeout_at(deadline, read).await;
            let (details, counters) = read.ok().flatten().unzip();
            let is_local = docker.engine.is_beside_us();
            Self {
                log_bytes: details.as_ref().filter(|_| is_local).and_then(log_bytes),
                counters: counters.flatten(),
                summary,
                details,
            }
        });
        Ok(seen.buffered(MAX_CONCURRENT_REQUESTS).collect().await)
    }

    async fn read(
        docker: &Docker,
        summary: &ContainerSummary,
    ) -> Option<(ContainerDetails, Option<Counters>)> {
        let id = ContainerName::new(&summary.id).ok()?;
        let details = docker.engine.try_inspect(&id).await.ok()?;
        let counters = match details.state.runs() {
            true => stats::counters(&docker.engine, &id).await.ok(),
            false => None,
        };
        Some((details, counters))
    }

    pub(super) fn id(&self) -> &str {
        &self.summary.id
    }

    pub(super) fn name(&self) -> &str {
        self.summary.display_name()
    }

    pub(super) fn runs(&self) -> bool {
        self.summary.state == "running"
    }

    /// Whether its current run began a short time ago.
    pub(super) fn is_young(&self) -> bool {
        let started = self
            .details
            .as_ref()
            .and_then(|at| unix_time::from_timestamp(&at.state.started_at));
        started.is_some_and(|started| Timestamp::now().as_second() - started < YOUNG_SECONDS)
    }

    /// Its exit code, if it is an error of the last day that nobody asked for.
    pub(super) fn failed_today(&self) -> Option<String> {
        let state = &self.details.as_ref()?.state;
        let ended = unix_time::from_timestamp(&state.finished_at)?;
        let is_recent = Timestamp::now().as_second() - ended < DAY_SECONDS;
        let is_error = !state.is_alive() && !matches!(state.exit_code, 0 | 130 | 137 | 143);
        (is_recent && is_error).then(|| format!("exit code {}", state.exit_code))
    }

    /// Used memory without cache, and its own limit if it has one.
    pub(super) fn memory(&self) -> Option<(u64, u64)> {
        let limit = u64::try_from(self.details.as_ref()?.host_config.memory).ok();
        let used = stats::used_memory(self.counters.as_ref()?);
        limit.filter(|limit| *limit > 0).map(|limit| (used, limit))
    }

    /// The share of CPU periods in which it had to wait.
    pub(super) fn throttled_percent(&self) -> Option<f64> {
        let (throttled, periods) = stats::throttling(self.counters.as_ref()?);
        (periods >= MIN_PERIODS).then(|| throttled as f64 / periods as f64 * 100.0)
    }

    /// Its ports on all addresses of the host.
    pub(super) fn public_ports(&self) -> Option<String> {
        let ports = self.summary.ports.iter();
        let public =
            ports.filter(|port| port.public != 0 && matches!(&*port.ip, "" | "0.0.0.0" | "::"));
        let mut public: Vec<String> = public.map(|port| port.public.to_string()).collect();
        public.sort();
        public.dedup();
        (!public.is_empty()).then(|| public.join(", "))
    }

    /// The mount through which it can control the engine as root.
    pub(super) fn has_socket(&self) -> Option<String> {
        let details = self.details.as_ref()?;
        let user = details.config.user.split(':').next().unwrap_or_default();
        let is_socket =
            |source: &str| source.ends_with("docker.sock") || source.ends_with("podman.sock");
        let mut mounts = details
            .mounts
            .iter()
            .filter(|mount| is_socket(&mount.source));
        let mount = mounts
            .next()
            .filter(|_| matches!(user, "" | "0" | "root"))?;
        Some(mount.destination.clone())
    }

    /// A remark if nothing limits its log.
    pub(super) fn rotation(&self) -> &'static str {
        let config = self
            .details
            .as_ref()
            .map(|details| &details.host_config.log_config);
        match config {
            Some(log) if log.driver == "json-file" && !log.config.contains_key("max-size") => {
                ", without rotation (max-size)"
            }
            _ => "",
        }
    }
}

/// The size of the log and of its older parts, which have the same name with a number.
fn log_bytes(details: &ContainerDetails) -> Option<u64> {
    let path = Path::new(&details.log_path);
    let name = path.file_name()?.to_str()?;
    let files = fs::read_dir(path.parent()?).ok()?.flatten();
    let own = files.filter(|file| file.file_name().to_string_lossy().starts_with(name));
    Some(
        own.filter_map(|file| file.metadata().ok())
            .map(|metadata| metadata.len())
            .sum(),
    )
}

/// The memory that programs of this machine could still get, if the engine runs on it.
pub(super) fn available_memory(docker: &Docker) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo")
        .ok()
        .filter(|_| docker.engine.is_beside_us())?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().split(' ').next()?.parse().ok()?;
    Some(kib << 10)
}
