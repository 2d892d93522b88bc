//! `get_container`.

mod activity;

use std::collections::BTreeMap;

use upstream::redact::Redactor;
use upstream::text::truncate;

use super::prelude::*;
use super::{ports, short_id};
use crate::compose;
use crate::engine::{ContainerState, Health, HostConfig, MountPoint};
use crate::exit_code;

/// Longest single text that is shown (a value, a label, a command), in characters.
const MAX_TEXT: usize = 400;
/// Most bytes of environment, and of labels, that are shown.
const MAX_LIST: usize = 4_000;
/// Most mounts and networks that are shown.
const MAX_ITEMS: usize = 20;

/// Inspect one container: state, health, command, environment, mounts, networks, limits.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetContainer {
    /// Name or id.
    container: ContainerName,
    /// Only these sections; default: all but processes and changes, which take a request each.
    #[serde(default)]
    sections: Vec<Section>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Section {
    Health,
    Command,
    Env,
    Labels,
    Mounts,
    Network,
    Limits,
    Processes,
    Changes,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Container {
    id: String,
    name: String,
    image: String,
    created: String,
    state: StateView,
    health: Option<HealthView>,
    command: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    working_dir: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    user: String,
    env: Option<Vec<String>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    compose_project: Option<String>,
    compose_service: Option<String>,
    mounts: Option<Vec<String>>,
    ports: Option<Vec<String>>,
    /// Name to IP address.
    networks: Option<BTreeMap<String, String>>,
    restart_policy: Option<String>,
    limits: Option<Limits>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    privileged: bool,
    log_driver: Option<String>,
    /// What runs in it, as `ps` shows it; the first line says what the columns are.
    processes: Option<Vec<String>>,
    /// Files that differ from the image: `A` added, `C` changed, `D` deleted.
    changes: Option<Vec<String>>,
    /// Values hidden as `***`.
    redacted: Option<u32>,
    note: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct StateView {
    status: String,
    started_at: Option<String>,
    finished_at: Option<String>,
    exit_code: Option<i64>,
    exit_meaning: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    oom_killed: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    restart_count: i64,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct HealthView {
    status: String,
    failing_streak: i64,
    last_probe: Option<ProbeView>,
}

#[derive(Serialize, JsonSchema)]
struct ProbeView {
    at: String,
    exit_code: i64,
    output: String,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct Limits {
    memory_bytes: Option<i64>,
    cpus: Option<f64>,
    pids: Option<i64>,
}

impl Tool for GetContainer {
    const NAME: &'static str = "get_container";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Container;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Container, ToolError> {
        let details = docker.container(&self.container).await?;
        let redactor = docker.redactor();
        let mut container = Container::new(&details, &self, &redactor);
        if self.sections.contains(&Section::Processes) && details.state.is_alive() {
            container.processes = Some(activity::processes(docker, &details, &redactor).await?);
        }
        if self.sections.contains(&Section::Changes) {
            container.changes = Some(activity::changes(docker, &details, &redactor).await?);
        }
        container.redacted = redactor.hidden();
        Ok(container)
    }
}

impl GetContainer {
    /// One container, with what is shown unless something else is asked for.
    pub(crate) fn new(container: ContainerName) -> Self {
        Self {
            container,
            sections: Vec::new(),
        }
    }

    fn wants(&self, section: Section) -> bool {
        let by_default = !matches!(section, Section::Processes | Section::Changes);
        match self.sections.is_empty() {
            true => by_default,
            false => self.sections.contains(&section),
        }
    }
}

impl Container {
    fn new(details: &ContainerDetails, asked: &GetContainer, redactor: &Redactor) -> Self {
        let config = &details.config;
        let wants = |section| asked.wants(section);
        let env = wants(Section::Env).then(|| env(&config.env, redactor));
        let (env, more_env) = env.map_or((None, 0), |(env, more)| (Some(env), more));
        let labels = wants(Section::Labels).then(|| labels(&config.labels, redactor));
        let (labels, more_labels) = labels.unwrap_or_default();
        let words = std::iter::once(&*details.path).chain(details.args.iter().map(String::as_str));
        let command = wants(Section::Command).then(|| truncate(&redactor.command(words), MAX_TEXT));
        let text = &|text: &str| truncate(&redactor.text(text), MAX_TEXT);
        let label = |key: &str| config.labels.get(key);
        let shown = |section, text: String| if wants(section) { text } else { String::new() };
        let host = &details.host_config;
        Self {
            id: short_id(&details.id).to_owned(),
            name: text(details.display_name()),
            image: text(&config.image),
            created: details.created.clone(),
            state: StateView::new(details, text),
            health: details
                .state
                .health
                .as_ref()
                .filter(|_| wants(Section::Health))
                .and_then(|health| HealthView::new(health, text)),
            command,
            working_dir: shown(Section::Command, text(&config.working_dir)),
            user: shown(Section::Command, text(&config.user)),
            env,
            labels,
            compose_project: label(compose::PROJECT).map(|name| text(name)),
            compose_service: label(compose::SERVICE).map(|name| text(name)),
            mounts: wants(Section::Mounts).then(|| {
                let mounts = details.mounts.iter().take(MAX_ITEMS);
                mounts.map(|at| mount(at, text)).collect()
            }),
            ports: wants(Section::Network).then(|| published_ports(details)),
            networks: wants(Section::Network).then(|| networks(details, text)),
            restart_policy: wants(Section::Limits).then(|| restart_policy(host)),
            limits: wants(Section::Limits).then(|| Limits::of(host)),
            privileged: host.privileged,
            log_driver: wants(Section::Limits).then(|| text(&host.log_config.driver)),
            processes: None,
            changes: None,
            redacted: None,
            note: left_out(more_env, more_labels),
        }
    }
}

impl StateView {
    fn new(details: &ContainerDetails, text: &impl Fn(&str) -> String) -> Self {
        let state = &details.state;
        let ended = has_ended(state);
        // The year 1 is the engine's way to say "never".
        let time = |at: &String| (!at.is_empty() && !at.starts_with("0001-")).then(|| at.clone());
        Self {
            status: text(&state.status),
            started_at: time(&state.started_at),
            finished_at: time(&state.finished_at),
            exit_code: ended.then_some(state.exit_code),
            exit_meaning: ended
                .then(|| exit_code::meaning(state.exit_code, state.oom_killed).into_owned()),
            oom_killed: state.oom_killed,
            error: text(&state.error),
            restart_count: details.restart_count,
        }
    }
}

/// Whether the exit code says something: a container that was never run has 0, unless it could not
/// be started.
fn has_ended(state: &ContainerState) -> bool {
    let never_run = state.status == "created" && state.exit_code == 0;
    !never_run && !matches!(&*state.status, "running" | "paused")
}

impl HealthView {
    fn new(health: &Health, text: &impl Fn(&str) -> String) -> Option<Self> {
        // Podman's way to say that there is no check.
        if matches!(&*health.status, "" | "none") {
            return None;
        }
        let last_probe = health.log.last().map(|probe| ProbeView {
            at: probe.end.clone(),
            exit_code: probe.exit_code,
            output: text(probe.output.trim()),
        });
        Some(Self {
            status: text(&health.status),
            failing_streak: health.failing_streak,
            last_probe,
        })
    }
}

impl Limits {
    fn of(host: &HostConfig) -> Self {
        let set = |limit: i64| (limit > 0).then_some(limit);
        Self {
            memory_bytes: set(host.memory),
            cpus: set(host.nano_cpus).map(|cpus| cpus as f64 / 1e9),
            pids: set(host.pids_limit),
        }
    }
}

/// The variables that fit, and how many do not.
fn env(env: &[String], redactor: &Redactor) -> (Vec<String>, usize) {
    let mut room = MAX_LIST;
    let mut shown = Vec::new();
    for variable in env {
        let variable = truncate(&redactor.assignment(variable), MAX_TEXT);
        let Some(left) = room.checked_sub(variable.len()) else {
            break;
        };
        room = left;
        shown.push(variable);
    }
    let more = env.len() - shown.len();
    (shown, more)
}

/// The labels that fit, and how many do not. Compose's own are bookkeeping.
fn labels(
    labels: &BTreeMap<String, String>,
    redactor: &Redactor,
) -> (BTreeMap<String, String>, usize) {
    let mut room = MAX_LIST;
    let mut shown = BTreeMap::new();
    let mut more = 0;
    for (key, value) in labels {
        if key.starts_with("com.docker.compose.") {
            continue;
        }
        let value = truncate(&redactor.named(key, value), MAX_TEXT);
        let key = truncate(&redactor.text(key), MAX_TEXT);
        match room.checked_sub(key.len() + value.len()) {
            Some(left) => {
                room = left;
                shown.insert(key, value);
            }
            None => more += 1,
        }
    }
    (shown, more)
}

fn left_out(env: usize, labels: usize) -> Option<String> {
    (env + labels > 0).then(|| format!("Left out for length: {env} variables and {labels} labels."))
}

/// `/srv/data -> /data (bind, ro)`.
fn mount(mount: &MountPoint, text: &impl Fn(&str) -> String) -> String {
    let source = if mount.name.is_empty() {
        &mount.source
    } else {
        &mount.name
    };
    let mode = if mount.writable { "rw" } else { "ro" };
    let line = format!("{source} -> {} ({}, {mode})", mount.destination, mount.kind);
    text(&line)
}

/// Where it is published, or while it does not run, where it will be.
fn published_ports(details: &ContainerDetails) -> Vec<String> {
    let now = ports::of_bindings(&details.network_settings.ports);
    if now.is_empty() {
        return ports::of_bindings(&details.host_config.port_bindings);
    }
    now
}

fn networks(
    details: &ContainerDetails,
    text: &impl Fn(&str) -> String,
) -> BTreeMap<String, String> {
    let networks = details.network_settings.networks.iter().take(MAX_ITEMS);
    let shown = networks.map(|(name, network)| (text(name), text(&network.ip_address)));
    shown.collect()
}

/// `no`, `always`, `on-failure:3`.
fn restart_policy(host: &HostConfig) -> String {
    let policy = &host.restart_policy;
    match (&*policy.name, policy.maximum_retry_count) {
        ("", _) => "no".to_owned(),
        (name, 1..) => format!("{name}:{}", policy.maximum_retry_count),
        (name, _) => name.to_owned(),
    }
}
