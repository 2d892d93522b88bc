//! Facts about a container, gathered before a diagnosis.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use upstream::time::Timestamp;

use super::finding::{Cause, Row, TellingLine, telling_line};
use crate::compose::DEPENDS_ON;
use crate::docker::Docker;
use crate::engine::log::{LogQuery, shorten};
use crate::engine::{
    ContainerDetails, ContainerName, ContainerState, ContainerSummary, Event, LocalFacts,
    ObjectName, Path as EnginePath, throttled_percent,
};
use crate::unix_time;

/// The period of the events, in seconds.
const EVENT_LOOKBACK_SECONDS: i64 = 7 * 24 * 3600;
/// Lines and bytes of the log that are read: a stack trace of a few causes fits.
const LOG_LINES: u32 = 200;
const LOG_BYTES: usize = 32_000;
/// The timeout of each request. Best effort: a slow engine must not block the diagnosis.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
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
    /// All visible containers, if one of them may be a part of the problem.
    pub(super) others: Vec<ContainerSummary>,
    /// The platforms of its image and of the engine, if they may be the problem.
    pub(super) platforms: Option<(String, String)>,
    /// Only for a running container of a local engine.
    pub(super) local: Option<LocalFacts>,
    /// The share of periods in which it waited for its CPU limit, if that is large and a check of it failed.
    pub(super) throttled_percent: Option<u64>,
    /// Directories to bind that do not exist.
    pub(super) missing_binds: Vec<String>,
    /// Unix seconds at which this server lost the engine, the last time.
    pub(super) engine_lost: Option<i64>,
    /// Unix seconds.
    pub(super) now: i64,
}

#[derive(Debug, Default)]
pub(super) enum LogTail {
    /// Lines of both streams.
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
    /// Reads the facts from the engine. Those that do not arrive in time are missing. `error` is the engine's
    /// message about a failed start, if the caller has one.
    pub(super) async fn gather(
        docker: &Docker,
        id: &ContainerName,
        details: ContainerDetails,
        error: Option<&str>,
    ) -> Self {
        let later = inspect_again(docker, id, &details).await;
        let restarted_meanwhile = later.as_ref().is_some_and(|later| {
            later.state.started_at != details.state.started_at || !later.state.runs()
        });
        let details = later.unwrap_or(details);
        // After the last inspection, so that the end of a run that it counts is among the events.
        let now = Timestamp::now().as_second();
        let period = (now - EVENT_LOOKBACK_SECONDS, None);
        let (kind, own) = (Some("container"), Some(id.as_str()));
        let (past, log, local) = tokio::join!(
            docker.past_events(period, kind, own, REQUEST_TIMEOUT),
            LogTail::read(docker, &details),
            docker.engine.local_facts(&details),
        );
        let mut facts = Self {
            restarted_meanwhile,
            events: past.events,
            complete_since: past.complete_since,
            log,
            local,
            missing_binds: missing_binds(docker, &details),
            engine_lost: docker.history.lost(),
            now,
            details,
            ..Self::default()
        };
        if facts.concerns_others() {
            let listed = tokio::time::timeout(REQUEST_TIMEOUT, docker.containers(true)).await;
            facts.others = listed.unwrap_or(Ok(Vec::new())).unwrap_or_default();
        }
        if facts.state().is_unhealthy() {
            let counters = docker.engine.counters(id);
            let counters = tokio::time::timeout(REQUEST_TIMEOUT, counters).await;
            let counters = counters.ok().and_then(Result::ok);
            facts.throttled_percent = counters.and_then(|read| throttled_percent(&read));
        }
        let redactor = docker.redactor();
        let env = facts.details.config.env.iter();
        facts.details.config.env = env.map(|set| redactor.assignment(set)).collect();
        let texts = [
            &facts.state().error,
            facts.log_text(),
            error.unwrap_or_default(),
        ];
        if texts.iter().any(|text| text.contains("exec format error")) {
            facts.platforms = platforms(docker, &facts.details).await;
        }
        facts
    }

    /// Whether another container may be a part of the problem: it holds a port, owns the network, or is the
    /// service that this one calls.
    fn concerns_others(&self) -> bool {
        let sign = self.telling_line().and_then(|telling| telling.sign);
        let probe = self.telling_probe().map(|(_, sign)| sign);
        let calls = sign
            .into_iter()
            .chain(probe)
            .any(|sign| matches!(sign.cause, Cause::NameResolution | Cause::PeerUnreachable));
        let host_config = &self.details.host_config;
        let publishes = !self.state().is_alive() && !host_config.port_bindings.is_empty();
        let depends = self.details.config.labels.contains_key(DEPENDS_ON);
        calls || publishes || depends || self.details.network_owner().is_some()
    }

    /// The names of other running containers that publish a host port that this one wants.
    pub(super) fn port_holders(&self) -> Vec<&str> {
        let bindings = self.details.host_config.port_bindings.values().flatten();
        let wanted: Vec<u16> = bindings
            .filter_map(|binding| binding.port.parse().ok())
            .collect();
        let holds = self.others.iter().filter(|other| {
            let mut ports = other.ports.iter().filter(|port| port.public != 0);
            other.id != self.details.id && ports.any(|port| wanted.contains(&port.public))
        });
        holds.map(ContainerSummary::display_name).collect()
    }

    /// The line of the log that tells most.
    pub(super) fn telling_line(&self) -> Option<TellingLine<'_>> {
        telling_line(self.log_text())
    }

    /// The line of the last health probe that has a known sign, if it failed.
    pub(super) fn telling_probe(&self) -> Option<(TellingLine<'_>, &'static Row)> {
        let health = self.state().health.as_ref()?;
        let last = health.log.last().filter(|probe| probe.exit_code != 0)?;
        let telling = telling_line(&last.output)?;
        Some((telling, telling.sign?))
    }

    pub(super) fn state(&self) -> &ContainerState {
        &self.details.state
    }

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

    pub(super) fn log_text(&self) -> &str {
        match &self.log {
            LogTail::Text(text) => text,
            _ => "",
        }
    }
}

impl LogTail {
    async fn read(docker: &Docker, details: &ContainerDetails) -> Self {
        if details.host_config.log_config.driver == "none" {
            return Self::NotKept;
        }
        let query = LogQuery::newest(LOG_LINES);
        let (engine, redactor) = (&docker.engine, docker.redactor_of(details));
        let read = engine.read_log(details, query, LOG_BYTES, REQUEST_TIMEOUT, redactor, None);
        match read.await {
            Ok(log) if !log.text().trim().is_empty() => Self::Text(shorten(&log.text(), None)),
            Ok(_) => Self::Empty,
            Err(failure) if failure.is_unreadable_log() => Self::NotKept,
            Err(_) => Self::Unknown,
        }
    }
}

/// Inspects a young container again, since one inspection cannot tell a start from a crash loop.
async fn inspect_again(
    docker: &Docker,
    id: &ContainerName,
    details: &ContainerDetails,
) -> Option<ContainerDetails> {
    let restarts = !matches!(&*details.host_config.restart_policy.name, "" | "no");
    let started = unix_time::from_timestamp(&details.state.started_at).unwrap_or(0);
    let is_young = Timestamp::now().as_second() - started <= YOUNG_RUN_SECONDS;
    if !restarts || !details.state.runs() || !is_young || details.restart_count > 2 {
        return None;
    }
    tokio::time::sleep(RECHECK_DELAY).await;
    docker.engine.try_inspect(id).await.ok()
}

/// The platforms of the image of a container and of the engine, such as `linux/arm64`.
async fn platforms(docker: &Docker, details: &ContainerDetails) -> Option<(String, String)> {
    let image = ObjectName::new(details.image.trim_start_matches("sha256:")).ok()?;
    let path = EnginePath::to("/images").id(&image).then("/json");
    let (image, engine) = tokio::join!(
        docker.engine.try_get::<Value>(path),
        docker.engine.try_get::<Value>(EnginePath::to("/version")),
    );
    let (image, engine) = (image.ok()?, engine.ok()?);
    let platform = |os: &Value, arch: &Value| Some(format!("{}/{}", os.as_str()?, arch.as_str()?));
    Some((
        platform(&image["Os"], &image["Architecture"])?,
        platform(&engine["Os"], &engine["Arch"])?,
    ))
}

/// Directories that it binds and that do not exist. The engine gives no reason when a start fails
/// because of one; we can check the same path if the engine is on this machine.
fn missing_binds(docker: &Docker, details: &ContainerDetails) -> Vec<String> {
    if !docker.engine.is_beside_us() || details.state.is_alive() {
        return Vec::new();
    }
    let binds = details.mounts.iter().filter(|mount| mount.kind == "bind");
    binds
        .map(|mount| mount.source.clone())
        .filter(|source| matches!(Path::new(source).try_exists(), Ok(false)))
        .collect()
}

pub(super) fn is_oom(event: &Event) -> bool {
    event.action == "oom"
}
