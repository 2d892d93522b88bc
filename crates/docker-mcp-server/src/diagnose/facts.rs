//! Facts about a container, gathered before a diagnosis.

use std::path::Path;
use std::time::Duration;

use upstream::time::Timestamp;

use crate::docker::Docker;
use crate::engine::{ContainerDetails, ContainerState, Event, LogQuery, self_container};
use crate::log;
use crate::name::ContainerName;
use crate::unix_time;

/// The period of the events, in seconds.
const EVENT_LOOKBACK_SECONDS: i64 = 7 * 24 * 3600;
/// Lines and bytes of the log that are read.
const LOG_LINES: u32 = 20;
const LOG_BYTES: usize = 4_000;
/// The timeout of each request. Best effort: a slow engine must not block the diagnosis.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// A younger run may be part of a crash loop.
const YOUNG_RUN_SECONDS: i64 = 5;
/// The delay until such a container is inspected again: the engine restarts at once, then after
/// 200 ms, 400 ms, …
const RECHECK_DELAY: Duration = Duration::from_millis(1200);

/// A container and everything that may explain its state.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) details: ContainerDetails,
    /// It was restarted while facts were gathered.
    pub(super) restarted_meanwhile: bool,
    /// The known events, oldest first.
    pub(super) events: Vec<Event>,
    /// Since then all events are known.
    pub(super) complete_since: Option<String>,
    pub(super) log: LogTail,
    /// The names of other containers that hold a host port that this one wants.
    pub(super) port_holders: Vec<String>,
    /// Directories to bind that do not exist.
    pub(super) missing_binds: Vec<String>,
    /// Unix seconds.
    pub(super) now: i64,
}

/// The end of the log.
#[derive(Debug, Default)]
pub(super) enum LogTail {
    /// Lines of stderr, or of both streams if stderr is empty.
    Text(String),
    #[default]
    Empty,
    /// The log driver keeps nothing that could be read.
    NotKept,
    /// The engine did not return it in time.
    Unknown,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunEnd {
    pub(super) code: i64,
    pub(super) oom: bool,
}

impl Facts {
    /// Reads the facts from the engine. Those that do not arrive in time are missing.
    pub(super) async fn gather(
        docker: &Docker,
        id: &ContainerName,
        details: ContainerDetails,
    ) -> Self {
        let now = Timestamp::now().as_second();
        let period = (now - EVENT_LOOKBACK_SECONDS, None);
        let (kind, own) = (Some("container"), Some(id.as_str()));
        let (past, log, port_holders, later) = tokio::join!(
            docker.past_events(period, kind, own, REQUEST_TIMEOUT),
            LogTail::read(docker, id, &details),
            port_holders(docker, &details),
            inspect_again(docker, id, &details, now),
        );
        let restarted_meanwhile = later.as_ref().is_some_and(|later| {
            later.state.started_at != details.state.started_at || !later.state.runs()
        });
        Self {
            restarted_meanwhile,
            events: past.events,
            complete_since: past.complete_since,
            log,
            port_holders,
            missing_binds: missing_binds(docker, &details),
            now,
            details: later.unwrap_or(details),
        }
    }

    pub(super) fn state(&self) -> &ContainerState {
        &self.details.state
    }

    /// The events of its exits.
    pub(super) fn exits(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| event.is_exit())
    }

    /// The end of the last completed run.
    pub(super) fn last_end(&self) -> Option<RunEnd> {
        let state = self.state();
        if state.runs() {
            let exit = self.events.iter().rposition(Event::is_exit)?;
            let code = self.events[exit].attribute("exitCode")?.parse().ok()?;
            let mut run = self.events[..exit].rsplit(Event::is_exit).next()?.iter();
            let oom = run.any(is_oom);
            return Some(RunEnd { code, oom });
        }
        unix_time::from_timestamp(&state.started_at).filter(|at| *at > 0)?;
        Some(RunEnd {
            code: state.exit_code,
            // Engines that are busy report it as an event, but not in the state.
            oom: state.oom_killed || self.last_run().iter().any(is_oom),
        })
    }

    /// The events since the last start, or all known ones.
    pub(super) fn last_run(&self) -> &[Event] {
        let mut events = self.events.iter();
        let start = events.rposition(|event| event.action == "start");
        &self.events[start.unwrap_or(0)..]
    }

    /// Seconds since it was started; `None` if it does not run.
    pub(super) fn uptime(&self) -> Option<i64> {
        let started = unix_time::from_timestamp(&self.state().started_at)?;
        self.state().runs().then_some(self.now - started)
    }

    /// The last lines of the log; empty if it cannot be read.
    pub(super) fn log_text(&self) -> &str {
        match &self.log {
            LogTail::Text(text) => text,
            _ => "",
        }
    }
}

impl LogTail {
    async fn read(docker: &Docker, id: &ContainerName, details: &ContainerDetails) -> Self {
        if details.host_config.log_config.driver == "none" {
            return Self::NotKept;
        }
        // stderr alone, then both streams. With a terminal, stderr is part of stdout.
        let tty = details.config.tty;
        for stdout in [tty, true] {
            let query = LogQuery {
                stdout,
                ..LogQuery::newest(LOG_LINES)
            };
            let (engine, limit) = (&docker.engine, REQUEST_TIMEOUT);
            let read = log::read(engine, id, query, tty, LOG_BYTES, limit, None);
            match read.await {
                Ok(log) if !log.text.trim().is_empty() => return Self::Text(log.text),
                Ok(_) => {}
                Err(failure) if failure.is_unreadable_log() => return Self::NotKept,
                Err(_) => return Self::Unknown,
            }
        }
        Self::Empty
    }
}

/// Inspects a young container again, since one inspection cannot tell a start from a crash loop.
async fn inspect_again(
    docker: &Docker,
    id: &ContainerName,
    details: &ContainerDetails,
    now: i64,
) -> Option<ContainerDetails> {
    let restarts = !matches!(&*details.host_config.restart_policy.name, "" | "no");
    let started = unix_time::from_timestamp(&details.state.started_at).unwrap_or(0);
    let is_young = now - started <= YOUNG_RUN_SECONDS;
    if !restarts || !details.state.runs() || !is_young || details.restart_count > 2 {
        return None;
    }
    tokio::time::sleep(RECHECK_DELAY).await;
    docker.engine.try_inspect(id).await.ok()
}

/// The other containers that have a host port of this container. Empty if this container runs.
async fn port_holders(docker: &Docker, details: &ContainerDetails) -> Vec<String> {
    let bindings = details.host_config.port_bindings.values().flatten();
    let wanted: Vec<u16> = bindings
        .filter_map(|binding| binding.port.parse().ok())
        .filter(|port| *port != 0)
        .collect();
    if wanted.is_empty() || details.state.is_alive() {
        return Vec::new();
    }
    let running = tokio::time::timeout(REQUEST_TIMEOUT, docker.containers(false)).await;
    let running = running.unwrap_or(Ok(Vec::new())).unwrap_or_default();
    let holds = running.iter().filter(|other| {
        let mut ports = other.ports.iter();
        other.id != details.id && ports.any(|port| wanted.contains(&port.public))
    });
    holds.map(|other| other.display_name().to_owned()).collect()
}

/// Directories that it binds and that do not exist. The engine gives no reason when a start fails
/// because of one; we can check the same path if the engine is on this machine.
fn missing_binds(docker: &Docker, details: &ContainerDetails) -> Vec<String> {
    if !docker.engine.target.is_local()
        || self_container::in_container()
        || details.state.is_alive()
    {
        return Vec::new();
    }
    let binds = details.mounts.iter().filter(|mount| mount.kind == "bind");
    binds
        .map(|mount| mount.source.clone())
        .filter(|source| matches!(Path::new(source).try_exists(), Ok(false)))
        .collect()
}

fn is_oom(event: &Event) -> bool {
    event.action == "oom"
}
