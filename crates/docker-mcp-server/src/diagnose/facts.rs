//! What is known about a container before anything is concluded.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::docker::Docker;
use crate::engine::{
    ContainerDetails, ContainerState, EngineError, Event, LogQuery, self_container,
};
use crate::log;
use crate::name::ContainerName;
use crate::unix_time;

/// How far back events count, in seconds. The engine forgets most of them sooner.
const LOOKBACK: i64 = 3600;
/// How much of the log is read.
const LOG_LINES: u32 = 20;
const LOG_BYTES: usize = 4_000;
/// What explains a problem must not become one: these questions are given up early.
const LIMIT: Duration = Duration::from_secs(2);
/// A run that is younger than this, in seconds, may be one of a crash loop.
const YOUNG: i64 = 5;
/// Between two looks at such a one: the engine restarts at once, then after 200 ms, 400 ms, …
const SECOND_LOOK: Duration = Duration::from_millis(1200);

/// A container, looked at from all sides.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) details: ContainerDetails,
    /// It was started again while it was looked at.
    pub(super) restarted_meanwhile: bool,
    /// Of the last hour, oldest first, as far as the engine remembers.
    pub(super) events: Vec<Event>,
    pub(super) log: LastWords,
    /// The names of other containers that hold a host port that this one wants.
    pub(super) port_holders: Vec<String>,
    /// Directories to bind that are not there.
    pub(super) missing_binds: Vec<String>,
    /// Unix seconds.
    pub(super) now: i64,
}

/// The end of the log.
#[derive(Debug, Default)]
pub(super) enum LastWords {
    /// Of stderr, or of both streams where it wrote nothing there.
    Said(String),
    /// It said nothing.
    #[default]
    Nothing,
    /// The log driver keeps nothing that could be read.
    NotKept,
    /// The engine did not hand it out in time.
    Unknown,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) code: i64,
    pub(super) oom: bool,
}

impl Facts {
    /// Asks the engine. Only that the container exists is sure; the rest is there where the engine
    /// tells it in time.
    pub(super) async fn gather(
        docker: &Docker,
        id: &ContainerName,
        details: ContainerDetails,
    ) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        let period = (now - LOOKBACK, now + 1);
        let (events, log, port_holders, later) = tokio::join!(
            docker.engine.past_events(id, period, LIMIT),
            LastWords::of(docker, id, &details),
            port_holders(docker, &details),
            second_look(docker, id, &details, now),
        );
        let restarted_meanwhile = later.as_ref().is_some_and(|later| {
            later.state.started_at != details.state.started_at || !later.state.runs()
        });
        Self {
            restarted_meanwhile,
            events: events.unwrap_or_default(),
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

    /// How the last run ended that has ended.
    pub(super) fn last_end(&self) -> Option<End> {
        let state = self.state();
        if state.runs() {
            let death = self.events.iter().rposition(Event::is_death)?;
            let code = self.events[death].attribute("exitCode");
            let run = self.events[..death].rsplit(Event::is_death).next();
            return Some(End {
                code: code?.parse().ok()?,
                oom: run
                    .unwrap_or_default()
                    .iter()
                    .any(|event| event.action == "oom"),
            });
        }
        unix_time::from_timestamp(&state.started_at).filter(|at| *at > 0)?;
        Some(End {
            code: state.exit_code,
            oom: state.oom_killed,
        })
    }

    /// The events around the last end: from the last start on, or all that are known.
    pub(super) fn last_run(&self) -> &[Event] {
        let start = self
            .events
            .iter()
            .rposition(|event| event.action == "start");
        &self.events[start.unwrap_or(0)..]
    }

    /// Seconds since it was started; `None` while it does not run.
    pub(super) fn uptime(&self) -> Option<i64> {
        let started = unix_time::from_timestamp(&self.state().started_at)?;
        self.state().runs().then_some(self.now - started)
    }

    /// What it said before it ended; empty where that is not known.
    pub(super) fn last_words(&self) -> &str {
        match &self.log {
            LastWords::Said(text) => text,
            _ => "",
        }
    }
}

impl LastWords {
    async fn of(docker: &Docker, id: &ContainerName, details: &ContainerDetails) -> Self {
        if details.host_config.log_config.driver == "none" {
            return Self::NotKept;
        }
        let mut both = false;
        loop {
            // With a terminal, stderr is part of stdout.
            let tty = details.config.tty;
            let query = LogQuery {
                stdout: both || tty,
                ..LogQuery::newest(LOG_LINES)
            };
            let read = log::read(&docker.engine, id, query, tty, LOG_BYTES, LIMIT).await;
            return match read {
                Ok(log) if !log.text.trim().is_empty() => Self::Said(log.text),
                Ok(_) if both => Self::Nothing,
                Ok(_) => {
                    both = true;
                    continue;
                }
                Err(EngineError::Refused { message, .. })
                    if message.contains("support reading") =>
                {
                    Self::NotKept
                }
                Err(_) => Self::Unknown,
            };
        }
    }
}

/// Looks again where one look cannot tell a start from a crash loop.
async fn second_look(
    docker: &Docker,
    id: &ContainerName,
    details: &ContainerDetails,
    now: i64,
) -> Option<ContainerDetails> {
    let restarts = !matches!(&*details.host_config.restart_policy.name, "" | "no");
    let started = unix_time::from_timestamp(&details.state.started_at).unwrap_or(0);
    if !restarts || !details.state.runs() || now - started > YOUNG || details.restart_count > 2 {
        return None;
    }
    tokio::time::sleep(SECOND_LOOK).await;
    docker.engine.try_inspect(id).await.ok()
}

/// Who else has a host port that this container publishes. Asked only where it does not run.
async fn port_holders(docker: &Docker, details: &ContainerDetails) -> Vec<String> {
    let bindings = details.host_config.port_bindings.values().flatten();
    let wanted: Vec<u16> = bindings
        .filter_map(|binding| binding.port.parse().ok())
        .filter(|port| *port != 0)
        .collect();
    if wanted.is_empty() || details.state.is_alive() {
        return Vec::new();
    }
    let running = tokio::time::timeout(LIMIT, docker.containers(false)).await;
    let running = running.unwrap_or(Ok(Vec::new())).unwrap_or_default();
    let holds = running.iter().filter(|other| {
        let mut ports = other.ports.iter();
        other.id != details.id && ports.any(|port| wanted.contains(&port.public))
    });
    holds.map(|other| other.display_name().to_owned()).collect()
}

/// Directories that it binds and that are not on this machine. The engine gives no reason when a
/// start fails of it; we can look where it would look, if it is on this machine.
fn missing_binds(docker: &Docker, details: &ContainerDetails) -> Vec<String> {
    if !docker.engine.target().is_local()
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
