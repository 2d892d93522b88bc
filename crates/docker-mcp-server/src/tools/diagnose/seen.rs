//! The facts about each container, and the checks of them.

use std::cmp::Reverse;
use std::fs;
use std::path::Path;

use tokio::time::Instant;
use upstream::text::first_line;

use crate::compose;
use crate::engine::{Counters, Event, throttled_percent};
use crate::tools::get_container_stats as stats;
use crate::tools::prelude::*;
use crate::tools::recreate_container::is_kept;
use crate::unix_time::{self, now};

const GATHER_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_CONCURRENT_REQUESTS: usize = 16;
/// A day, and the age of a young run, in seconds.
pub(super) const DAY_SECONDS: i64 = 24 * 3600;
const YOUNG_SECONDS: i64 = 600;
/// Restarts of a young run from which on it is a loop.
const MANY_RESTARTS: i64 = 3;
/// Bytes of a log from which on they count.
const LARGE_LOG: u64 = 100_000_000;
/// The share of the memory limit from which on it counts, in percent.
const HIGH_MEMORY_PERCENT: u64 = 90;
/// Seconds after a start until an application has to listen.
const START_SECONDS: i64 = 30;
/// Longest reason of the engine that is shown, in characters.
const MAX_ERROR: usize = 200;

/// A container as the engine and, if it is local, its machine show it.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) summary: ContainerSummary,
    /// Of no container if the engine did not describe it in time.
    details: ContainerDetails,
    counters: Counters,
    /// The size of its log files; 0 if they are not visible.
    log_bytes: u64,
    /// Events `oom` within a day.
    oom_events: usize,
    /// It was stopped on request within a day.
    is_stopped: bool,
    /// The container whose network it uses does not run.
    lost_owner: Option<String>,
    /// Its published port on which nothing listens, if its sockets are visible.
    dead_port: Option<u16>,
}

impl Seen {
    /// All visible containers, those with large logs first.
    pub(super) async fn gather(docker: &Docker) -> Result<Vec<Self>, ToolError> {
        let deadline = Instant::now() + GATHER_TIMEOUT;
        let period = (now() - DAY_SECONDS, None);
        let past = docker.past_events(period, Some("container"), None, docker.engine.timeout());
        // An owner of a network may be hidden.
        let all = docker.engine.containers(true);
        let (listed, all, past) = tokio::join!(docker.containers(true), all, past);
        let all = all?;
        let runs = |owner: &str| {
            let owner = all.iter().find(|other| other.is_called(owner));
            owner.is_some_and(|owner| owner.state == "running")
        };
        let (runs, events) = (&runs, &past.events);
        let seen = stream::iter(listed?).map(|summary| async move {
            let read = tokio::time::timeout_at(deadline, Self::read(docker, &summary));
            let read = read.await.ok().flatten().unwrap_or_default();
            let own = |action: &str| {
                let is_own = |event: &&Event| event.action == action && event.id() == &*summary.id;
                events.iter().filter(is_own).count()
            };
            let owner = read.details.network_owner();
            let lost_owner = owner.filter(|owner| !runs(owner));
            let lost_owner = lost_owner.map(|owner| short_id(owner).to_owned());
            Self {
                oom_events: own("oom"),
                is_stopped: own("stop") > 0,
                lost_owner,
                summary,
                ..read
            }
        });
        let mut seen: Vec<Self> = seen.buffered(MAX_CONCURRENT_REQUESTS).collect().await;
        seen.sort_by_key(|one| Reverse(one.log_bytes));
        Ok(seen)
    }

    async fn read(docker: &Docker, summary: &ContainerSummary) -> Option<Self> {
        let id = &summary.id;
        let details = docker.engine.try_inspect(id).await.ok()?;
        let counters = match details.state.runs() {
            true => docker.engine.counters(id).await.unwrap_or_default(),
            false => Counters::default(),
        };
        let is_local = docker.engine.is_beside_us();
        let log_bytes = log_bytes(&details).filter(|_| is_local).unwrap_or_default();
        let dead_port = dead_port(&docker.engine, &details).await;
        Some(Self {
            details,
            counters,
            log_bytes,
            dead_port,
            ..Self::default()
        })
    }

    pub(super) fn unread(&self) -> Option<String> {
        let is_unread = self.details.id != self.summary.id;
        is_unread.then(|| self.summary.status.clone())
    }

    pub(super) fn restarts(&self) -> Option<String> {
        let (count, state) = (self.details.restart_count, &self.details.state);
        let started = unix_time::from_timestamp(&state.started_at).unwrap_or_default();
        let is_young = now() - started < YOUNG_SECONDS && count >= MANY_RESTARTS;
        let loops = state.status == "restarting" || is_young;
        loops.then(|| format!("{count} restarts"))
    }

    pub(super) fn out_of_memory(&self) -> Option<String> {
        let is_oom = self.oom_events > 0 || self.details.state.oom_killed;
        is_oom.then(|| format!("{} times within a day", self.oom_events.max(1)))
    }

    pub(super) fn health(&self) -> Option<String> {
        let is_unhealthy = self.summary.status.contains("(unhealthy)");
        is_unhealthy.then(|| self.summary.status.clone())
    }

    /// An end with an error and without a request.
    pub(super) fn failure(&self) -> Option<String> {
        let state = &self.details.state;
        let is_recent = now() - unix_time::from_timestamp(&state.finished_at)? < DAY_SECONDS;
        let is_error = !state.is_alive() && !matches!(state.exit_code, 0 | 130 | 137 | 143);
        (is_recent && is_error).then(|| format!("exit code {}", state.exit_code))
    }

    /// The engine's reason why it never ran, or does not run again.
    pub(super) fn failed_start(&self) -> Option<String> {
        let state = &self.details.state;
        (!state.error.is_empty() && !state.is_alive()).then(|| first_line(&state.error, MAX_ERROR))
    }

    /// An end by SIGKILL that nobody asked for, and that was not for lack of memory.
    pub(super) fn killed(&self) -> Option<String> {
        let state = &self.details.state;
        let is_recent = now() - unix_time::from_timestamp(&state.finished_at)? < DAY_SECONDS;
        let is_killed = !state.is_alive() && state.exit_code == 137;
        let is_known = self.is_stopped || self.out_of_memory().is_some();
        (is_recent && is_killed && !is_known).then(|| "exit code 137".to_owned())
    }

    pub(super) fn never_started(&self) -> Option<String> {
        let is_new = self.summary.state == "created" && self.details.state.error.is_empty();
        let project = compose::project_of(&self.summary.labels)?;
        is_new.then(|| project.clone())
    }

    pub(super) fn lost_owner(&self) -> Option<String> {
        self.lost_owner.clone()
    }

    pub(super) fn replaced(&self) -> Option<String> {
        is_kept(&self.summary).then(|| self.summary.status.clone())
    }

    pub(super) fn dead_port(&self) -> Option<String> {
        self.dead_port.map(|port| port.to_string())
    }

    pub(super) fn memory(&self) -> Option<String> {
        let limit = u64::try_from(self.details.host_config.memory).unwrap_or_default();
        let percent = (stats::used_memory(&self.counters) * 100).checked_div(limit)?;
        let is_high = percent >= HIGH_MEMORY_PERCENT;
        is_high.then(|| format!("{percent} % of {}", megabytes(limit)))
    }

    pub(super) fn cpu(&self) -> Option<String> {
        let percent = throttled_percent(&self.counters)?;
        Some(format!("{percent} % of the time"))
    }

    pub(super) fn log(&self) -> Option<String> {
        let log = &self.details.host_config.log_config;
        let grows = log.driver == "json-file" && !log.config.contains_key("max-size");
        let remark = if grows {
            ", without rotation (max-size)"
        } else {
            ""
        };
        let size = megabytes(self.log_bytes);
        (self.log_bytes >= LARGE_LOG).then(|| format!("{size}{remark}"))
    }

    pub(super) fn ports(&self) -> Option<String> {
        let is_public = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
        let ports = self.summary.ports.iter();
        let public = ports.filter(|port| port.public != 0 && is_public(&port.ip));
        let public: BTreeSet<_> = public.map(|port| port.public).collect();
        (!public.is_empty()).then(|| format!("{public:?}"))
    }

    /// The mount through which it can control the engine as root.
    pub(super) fn socket(&self) -> Option<String> {
        let user = self
            .details
            .config
            .user
            .split(':')
            .next()
            .unwrap_or_default();
        let has_socket = |source: &str| {
            let is_socket = source.ends_with("docker.sock") || source.ends_with("podman.sock");
            is_socket || matches!(source, "/" | "/run" | "/var/run" | "/var")
        };
        let mut mounts = self.details.mounts.iter();
        let mount = mounts.find(|mount| has_socket(&mount.source))?;
        matches!(user, "" | "0" | "root").then(|| mount.source.clone())
    }
}

/// A published port of a container on which nothing listens.
async fn dead_port(engine: &Engine, details: &ContainerDetails) -> Option<u16> {
    let started = unix_time::from_timestamp(&details.state.started_at)?;
    details.published_tcp().next()?;
    if now() - started < START_SECONDS {
        return None;
    }
    engine.local_facts(details).await?.dead_port(details)
}

/// How full the disk of the engine's files is, in percent, if that is much.
#[cfg(unix)]
pub(super) fn full_disk(info: &Value) -> Option<String> {
    let disk = nix::sys::statvfs::statvfs(info["DockerRootDir"].as_str()?).ok()?;
    full_percent(disk.blocks_available().into(), disk.blocks().into())
}

#[cfg(any(unix, test))]
fn full_percent(free: u128, all: u128) -> Option<String> {
    let free_percent = (free * 100).checked_div(all)?;
    (free_percent < 5).then(|| (100 - free_percent).to_string())
}

#[cfg(not(unix))]
pub(super) fn full_disk(_: &Value) -> Option<String> {
    None
}

pub(super) fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}

/// The size of the log and of its older parts, which have the same name with a number.
fn log_bytes(details: &ContainerDetails) -> Option<u64> {
    let path = Path::new(&details.log_path);
    let name = path.file_name()?.to_str()?;
    let files = fs::read_dir(path.parent()?).ok()?.flatten();
    let own = files.filter(|file| file.file_name().to_string_lossy().starts_with(name));
    let sizes = own.filter_map(|file| Some(file.metadata().ok()?.len()));
    Some(sizes.sum())
}

/// The memory that programs of this machine could still get, if the engine runs on it.
pub(super) fn available_memory(docker: &Docker) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok();
    let text = text.filter(|_| docker.engine.is_beside_us())?;
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().split(' ').next()?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_counts_when_it_is_nearly_full() {
        for (free, all, expected) in [
            (4, 100, Some("96")),
            (5, 100, None),
            (0, 7, Some("100")),
            (0, 0, None),
        ] {
            assert_eq!(full_percent(free, all).as_deref(), expected, "{free} {all}");
        }
    }
}
