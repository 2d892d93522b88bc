//! `list_containers` and `get_container`.

use super::prelude::*;
use crate::compose;
use crate::docker::HIDDEN;
use crate::engine::{
    ContainerState, Health, HostConfig, MountPoint, exit_meaning, ports_of_bindings,
    ports_of_summary,
};

const DEFAULT_ROWS: usize = 50;
/// Longest text of a row, in characters.
const MAX_ROW_TEXT: usize = 200;

/// List containers, newest first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListContainers {
    /// Lists stopped ones too, as `state` does.
    #[serde(default)]
    all: bool,
    /// The name contains this.
    name: Option<String>,
    /// They are in this state.
    state: Option<StateFilter>,
    /// They have `key` or `key=value`.
    label: Option<String>,
    /// The image's name contains this.
    image: Option<String>,
    /// They are of this compose project.
    project: Option<String>,
    /// It is 50 by default.
    limit: Option<Bounded<1, 500>>,
    /// Skips so many rows.
    offset: Option<u32>,
}

/// States of the engine, and two of health.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum StateFilter {
    Created,
    Running,
    Paused,
    Restarting,
    Exited,
    Dead,
    Healthy,
    Unhealthy,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Containers {
    containers: Vec<ContainerRow>,
    /// All that match, if not all are listed.
    total: Option<usize>,
    omitted: Option<usize>,
    note: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct ContainerRow {
    id: String,
    name: String,
    image: String,
    state: String,
    status: String,
    health: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<String>,
    compose_project: Option<String>,
    compose_service: Option<String>,
    created: String,
}

impl Tool for ListContainers {
    const NAME: &'static str = "list_containers";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Containers;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Containers, ToolError> {
        let all = self.all || self.state.is_some();
        let listed = docker.containers(all).await?;
        Ok(self.select(listed, &docker.redactor()))
    }
}

impl ListContainers {
    fn select(&self, mut listed: Vec<ContainerSummary>, redactor: &Redactor) -> Containers {
        if let Some(part) = &self.name {
            let part = part.trim_start_matches('/').to_lowercase();
            listed.retain(|at| at.display_name().to_lowercase().contains(&part));
        }
        listed.retain(|container| self.wants(container));
        // The engine's order is nearly the same, but not stable for equal times.
        listed.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
        let rows = listed.iter().map(|at| ContainerRow::new(at, redactor));
        let limit = self
            .limit
            .map_or(DEFAULT_ROWS, |limit| limit.get() as usize);
        let (containers, omitted, next) = page(rows, self.offset, limit);
        let is_empty = listed.is_empty() && !self.all && self.state.is_none();
        let empty = is_empty.then(|| "None is running; all: true lists stopped ones too.".into());
        let note = next
            .map(|next| format!("{next} `name` narrows it down."))
            .or(empty);
        Containers {
            total: omitted.map(|_| listed.len()),
            omitted,
            note,
            containers,
        }
    }

    /// Whether it passes all filters except the name.
    fn wants(&self, container: &ContainerSummary) -> bool {
        let health = health(&container.status);
        let state = self.state.is_none_or(|state| match state {
            StateFilter::Healthy => health == Some("healthy"),
            StateFilter::Unhealthy => health == Some("unhealthy"),
            state => format!("{state:?}").to_lowercase() == container.state,
        });
        let labels = &container.labels;
        let has_label = |label: &String| match label.split_once('=') {
            Some((key, value)) => labels.get(key).is_some_and(|known| known == value),
            None => labels.contains_key(label),
        };
        let (image, project) = (self.image.as_ref(), self.project.as_ref());
        state
            && self.label.as_ref().is_none_or(has_label)
            && image.is_none_or(|part| container.image.contains(part))
            && project.is_none_or(|wanted| compose::project_of(labels) == Some(wanted))
    }
}

impl ContainerRow {
    fn new(container: &ContainerSummary, redactor: &Redactor) -> Self {
        let text = |text: &str| truncate(&redactor.text(text), MAX_ROW_TEXT);
        Self {
            id: short_id(&container.id).to_owned(),
            name: text(container.display_name()),
            image: text(&container.image),
            state: text(&container.state),
            status: text(&container.status),
            health: health(&container.status),
            ports: ports_of_summary(&container.ports),
            compose_project: compose::project_of(&container.labels).map(|name| text(name)),
            compose_service: compose::service_name(&container.labels).map(|name| text(name)),
            created: rfc3339(container.created),
        }
    }
}

/// The health from the status text; the engine's list has no other member for it.
pub(super) fn health(status: &str) -> Option<&'static str> {
    let known = ["unhealthy", "healthy", "starting"];
    let shown = status.split_once('(')?.1.trim_end_matches(')');
    known.into_iter().find(|word| shown.ends_with(word))
}

/// Longest text that is shown (a value, a label, a command), in characters.
const MAX_TEXT: usize = 400;
/// Most bytes of environment, and of labels, that are shown.
const MAX_LIST_BYTES: usize = 4_000;
/// Most mounts and networks that are shown.
const MAX_ITEMS: usize = 20;

/// Inspect one container: state, health, command, environment, mounts, networks, limits.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetContainer {
    /// Name or id.
    container: ContainerName,
    /// Shows these; default: all but processes and changes.
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
    /// Output of `ps`; the first line has the names of the columns.
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
        let mut details = docker.container(&self.container).await?;
        hide_names(&mut details, &docker.denied_names().await?);
        let redactor = docker.redactor_of(&details);
        let mut container = Container::new(&details, &self, &redactor);
        if self.sections.contains(&Section::Processes) && details.state.is_alive() {
            container.processes = Some(processes(docker, &details, &redactor).await?);
        }
        if self.sections.contains(&Section::Changes) {
            container.changes = Some(changes(docker, &details, &redactor).await?);
        }
        container.redacted = redactor.hidden();
        Ok(container)
    }
}

impl GetContainer {
    fn wants(&self, section: Section) -> bool {
        match self.sections.as_slice() {
            [] => !matches!(section, Section::Processes | Section::Changes),
            sections => sections.contains(&section),
        }
    }
}

impl Container {
    fn new(details: &ContainerDetails, asked: &GetContainer, redactor: &Redactor) -> Self {
        let (config, host) = (&details.config, &details.host_config);
        let text = &|text: &str| truncate(&redactor.text(text), MAX_TEXT);
        let wants = |section| asked.wants(section);
        let (has_command, has_limits) = (wants(Section::Command), wants(Section::Limits));
        let (has_network, has_mounts) = (wants(Section::Network), wants(Section::Mounts));
        let mut omitted = 0;
        let env = wants(Section::Env).then(|| env(&config.env, redactor, &mut omitted));
        let labels = wants(Section::Labels).then(|| labels(&config.labels, redactor, &mut omitted));
        let words = std::iter::once(&*details.path).chain(details.args.iter().map(String::as_str));
        let command_text = |shown: &str| {
            if has_command {
                text(shown)
            } else {
                String::new()
            }
        };
        let health = details.state.health.as_ref();
        let health = health.filter(|_| wants(Section::Health));
        let mounts = details.mounts.iter().take(MAX_ITEMS);
        Self {
            id: short_id(&details.id).to_owned(),
            name: text(details.display_name()),
            image: text(&config.image),
            created: details.created.clone(),
            state: StateView::new(details, text),
            health: health.and_then(|health| HealthView::new(health, text)),
            command: has_command.then(|| truncate(&redactor.command(words), MAX_TEXT)),
            working_dir: command_text(&config.working_dir),
            user: command_text(&config.user),
            env,
            labels: labels.unwrap_or_default(),
            compose_project: compose::project_of(&config.labels).map(|name| text(name)),
            compose_service: compose::service_name(&config.labels).map(|name| text(name)),
            mounts: has_mounts.then(|| mounts.map(|at| mount(at, text)).collect()),
            ports: has_network.then(|| published_ports(details)),
            networks: has_network.then(|| networks(details, text)),
            restart_policy: has_limits.then(|| restart_policy(host)),
            limits: has_limits.then(|| Limits::new(host)),
            privileged: host.privileged,
            log_driver: has_limits.then(|| text(&host.log_config.driver)),
            processes: None,
            changes: None,
            redacted: None,
            note: (omitted > 0)
                .then(|| format!("Left out for length: {omitted} variables and labels.")),
        }
    }
}

impl StateView {
    fn new(details: &ContainerDetails, text: &impl Fn(&str) -> String) -> Self {
        let state = &details.state;
        let (ended, code) = (has_ended(state), state.exit_code);
        // The engine writes the year 1 for "never".
        let time = |at: &String| (!at.is_empty() && !at.starts_with("0001-")).then(|| at.clone());
        let meaning = || exit_meaning(code, state.oom_killed).into_owned();
        Self {
            status: text(&state.status),
            started_at: time(&state.started_at),
            finished_at: time(&state.finished_at),
            exit_code: ended.then_some(code),
            exit_meaning: ended.then(meaning),
            oom_killed: state.oom_killed,
            error: text(&state.error),
            restart_count: details.restart_count,
        }
    }
}

/// Whether the exit code is meaningful: a container that never ran has 0, unless it could not be
/// started.
pub(super) fn has_ended(state: &ContainerState) -> bool {
    let never_run = state.status == "created" && state.exit_code == 0;
    !never_run && !matches!(&*state.status, "running" | "paused")
}

impl HealthView {
    fn new(health: &Health, text: &impl Fn(&str) -> String) -> Option<Self> {
        // Podman's value for no health check.
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
    fn new(host: &HostConfig) -> Self {
        let set = |limit: i64| (limit > 0).then_some(limit);
        Self {
            memory_bytes: set(host.memory),
            cpus: set(host.nano_cpus).map(|cpus| cpus as f64 / 1e9),
            pids: set(host.pids_limit),
        }
    }
}

/// Replaces the names of networks and volumes that the rules hide.
fn hide_names(details: &mut ContainerDetails, denied: &BTreeSet<String>) {
    let mounts = details.mounts.iter_mut();
    for mount in mounts.filter(|mount| denied.contains(&mount.name)) {
        HIDDEN.clone_into(&mut mount.name);
    }
    for name in denied {
        if let Some(endpoint) = details.network_settings.networks.remove(name) {
            let networks = &mut details.network_settings.networks;
            networks.insert(HIDDEN.to_owned(), endpoint);
        }
    }
}

/// The variables that fit; counts the others.
fn env(env: &[String], redactor: &Redactor, omitted: &mut usize) -> Vec<String> {
    let shown = env.iter();
    let shown = shown.map(|variable| truncate(&redactor.assignment(variable), MAX_TEXT));
    let fitting = fitting(shown.collect(), MAX_LIST_BYTES);
    *omitted += fitting.omitted;
    fitting.rows
}

/// The labels that fit; counts the others. Leaves out those of compose.
fn labels(
    labels: &BTreeMap<String, String>,
    redactor: &Redactor,
    omitted: &mut usize,
) -> BTreeMap<String, String> {
    let own = labels.iter();
    let own = own.filter(|(key, _)| !key.starts_with("com.docker.compose."));
    let shown = own.map(|(key, value)| {
        let value = truncate(&redactor.named(key, value), MAX_TEXT);
        (truncate(&redactor.text(key), MAX_TEXT), value)
    });
    let fitting = fitting(shown.collect(), MAX_LIST_BYTES);
    *omitted += fitting.omitted;
    fitting.rows.into_iter().collect()
}

/// `/srv/data -> /data (bind, ro)`.
fn mount(mount: &MountPoint, text: &impl Fn(&str) -> String) -> String {
    let source = match &*mount.name {
        "" => &mount.source,
        name => name,
    };
    let mode = if mount.writable { "rw" } else { "ro" };
    let line = format!("{source} -> {} ({}, {mode})", mount.destination, mount.kind);
    text(&line)
}

/// The published ports; if it does not run, those that will be published.
fn published_ports(details: &ContainerDetails) -> Vec<String> {
    match ports_of_bindings(&details.network_settings.ports) {
        none if none.is_empty() => ports_of_bindings(&details.host_config.port_bindings),
        ports => ports,
    }
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

/// Processes and files that are shown, and the longest line in characters.
const MAX_LINES: usize = 60;
const MAX_LINE: usize = 200;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Top {
    titles: Vec<String>,
    processes: Vec<Vec<String>>,
}

/// A changed file, with its index in `CAD`: changed, added, deleted.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Change {
    path: String,
    kind: usize,
}

/// The processes, in the form of `ps`.
async fn processes(
    docker: &Docker,
    container: &ContainerDetails,
    redactor: &Redactor,
) -> Result<Vec<String>, ToolError> {
    let path = Path::container(&container.id, "/top");
    let Top { titles, processes } = docker.engine.get(path).await?;
    let mut lines = vec![titles.join(" ")];
    let shown = processes.iter().map(|process| {
        let line = redactor.command(process.iter().map(String::as_str));
        line.chars().take(MAX_LINE).collect()
    });
    lines.extend(truncate_list(shown, MAX_LINES));
    Ok(lines)
}

/// The changed files, in the form of `docker diff`.
async fn changes(
    docker: &Docker,
    container: &ContainerDetails,
    redactor: &Redactor,
) -> Result<Vec<String>, ToolError> {
    let path = Path::container(&container.id, "/changes");
    // The engine writes null for an empty list.
    let changes: Option<Vec<Change>> = docker.engine.get(path).await?;
    let changes = changes.unwrap_or_default();
    let lines = changes.iter().map(|change| {
        let kind = ["C", "A", "D"].get(change.kind).unwrap_or(&"?");
        let line = redactor.text(&format!("{kind} {}", change.path));
        line.chars().take(MAX_LINE).collect()
    });
    Ok(truncate_list(lines, MAX_LINES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_read_from_the_status() {
        for (status, expected) in [
            ("Up 2 hours (healthy)", Some("healthy")),
            ("Up 2 hours (unhealthy)", Some("unhealthy")),
            ("Up 1 second (health: starting)", Some("starting")),
            ("Exited (3) 2 hours ago", None),
            ("Up 2 hours (Paused)", None),
        ] {
            assert_eq!(health(status), expected, "{status}");
        }
    }
}
