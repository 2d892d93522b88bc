//! `create_container`, and `update_container`, which changes a part of the same settings later.

use std::net::IpAddr;

use super::lifecycle;
use super::prelude::*;
use crate::engine::{HostConfig, ports_of_bindings};
use crate::policy::permit_marks;

/// Create a container from an image and start it. Options that reach the host need the operator's
/// policy.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateContainer {
    /// It must exist here: pull_image gets it.
    image: ImageName,
    /// The engine chooses one by default.
    name: Option<ContainerName>,
    /// Replaces the image's command: a program and its arguments.
    command: Option<Vec<String>>,
    /// Replaces the image's entrypoint.
    entrypoint: Option<Vec<String>>,
    /// Sets environment variables.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Sets labels.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Publishes `8080:80`, `127.0.0.1:8080:80/udp`, or `80` on any free port.
    #[schemars(with = "Option<Vec<String>>")]
    ports: Option<Vec<PortSpec>>,
    /// Mounts `volume:/path` or `/host/path:/path`, with `:ro` read-only.
    #[schemars(with = "Option<Vec<String>>")]
    mounts: Option<Vec<MountSpec>>,
    /// Joins this network, or `none`, or `host`.
    network: Option<String>,
    /// Gives it further names in that network.
    aliases: Option<Vec<ContainerName>>,
    restart: Option<RestartPolicy>,
    /// Limits the restarts of `on-failure`.
    restart_retries: Option<Bounded<1, 1000>>,
    /// Limits its memory, in MiB.
    memory_mb: Option<Megabytes>,
    /// Limits its CPUs, such as 0.5.
    cpus: Option<f64>,
    /// Limits its processes.
    pids: Option<Bounded<1, 4_000_000>>,
    /// Sets limits such as `{"nofile": 65536}`.
    ulimits: Option<BTreeMap<String, i64>>,
    healthcheck: Option<HealthcheckSpec>,
    /// Mounts the root filesystem read-only.
    read_only: Option<bool>,
    /// Mounts memory at `/path` or `/path:size=64m`.
    tmpfs: Option<Vec<String>>,
    /// Takes capabilities away, such as `ALL`.
    cap_drop: Option<Vec<String>>,
    /// Prevents setuid programs from gaining rights.
    no_new_privileges: Option<bool>,
    /// It is its id by default.
    hostname: Option<ContainerName>,
    /// Uses these name servers.
    #[schemars(with = "Option<Vec<String>>")]
    dns: Option<Vec<IpAddr>>,
    /// Adds `name:address` to its hosts file.
    extra_hosts: Option<Vec<String>>,
    /// Runs an init as process 1, which ends zombies.
    init: Option<bool>,
    /// Stops it by this; default: SIGTERM.
    stop_signal: Option<String>,
    /// Keeps its log by `json-file`, `local` or `none`.
    log_driver: Option<String>,
    /// Rotates the log at this size.
    log_max_mb: Option<Bounded<1, 100_000>>,
    /// Keeps so many rotated files.
    log_max_files: Option<Bounded<1, 1000>>,
    /// Runs as this user or uid.
    user: Option<String>,
    /// Starts in this directory.
    working_dir: Option<String>,
    /// Removes it, with its log, when it exits.
    #[serde(default)]
    auto_remove: bool,
    /// Does not start it.
    #[serde(default)]
    only_create: bool,
    /// Opens the host to it; needs the policy, as do cap_add, pid, ipc.
    privileged: Option<bool>,
    /// Adds capabilities.
    cap_add: Option<Vec<String>>,
    /// Joins this process namespace: `host`.
    pid: Option<String>,
    /// Joins this IPC namespace: `host`.
    ipc: Option<String>,
}

/// Checks its health.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HealthcheckSpec {
    /// Runs a program with arguments, or one line in a shell; `NONE` turns the check off.
    command: Vec<String>,
    /// It runs so often; default 30.
    interval_seconds: Option<u32>,
    /// It may take so long; default 30.
    timeout_seconds: Option<u32>,
    /// It is unhealthy after so many failures in a row; default 3.
    retries: Option<u32>,
    /// Failures in this time do not count.
    start_period_seconds: Option<u32>,
}

#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct Created {
    id: String,
    name: String,
    /// `created`, `running`, or how it ended at once.
    state: String,
    exit_code: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<String>,
    /// Its last lines, if it ended at once.
    log: Option<String>,
    note: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl Tool for CreateContainer {
    const NAME: &'static str = "create_container";
    const EFFECT: Effect = Effect::Additive;
    type Service = Docker;
    type Output = Created;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Created, ToolError> {
        let name = self.name.as_ref().map_or("", ContainerName::as_str);
        permit_marks(name, self.labels.keys())?;
        let check = self.healthcheck.as_ref().map(|check| &check.command);
        let commands = [self.command.as_ref(), self.entrypoint.as_ref(), check];
        let words = commands.into_iter().flatten().flatten();
        let words = words.map(|word| ("command", &**word));
        refuse_hidden(
            docker,
            pairs(&self.env).chain(pairs(&self.labels)).chain(words),
        )?;
        let engine = &docker.engine;
        let created = docker.create_container(self.name.as_ref(), self.body()?);
        let (id, warnings) = created.await?;
        let redactor = docker.redactor();
        let warnings = warnings.iter().map(|line| redactor.text(line)).collect();
        let inspected = engine.try_inspect(&id).await;
        let before = inspected.map_err(|failure| engine.explain(failure))?;
        let mut created = Created {
            id: short_id(&before.id).to_owned(),
            name: before.display_name().to_owned(),
            state: before.state.status.clone(),
            warnings,
            ..Created::default()
        };
        if self.only_create {
            return Ok(created);
        }
        let shown = ContainerName::new(before.display_name()).unwrap_or(id.clone());
        if let Err(cause) = lifecycle::start(docker, &shown, &id).await {
            let text = format!(
                "`{shown}` was created, and does not start. {} It is still there: remove_container \
                 removes it.",
                cause.message()
            );
            return Err(ToolError::new(cause.kind(), text));
        }
        let change = lifecycle::watch_early_exit(docker, &before).await?;
        // Best effort: it may be removed by now.
        if let Ok(now) = engine.try_inspect(&id).await {
            created.ports = ports_of_bindings(&now.network_settings.ports);
        }
        Ok(Created {
            state: change.after,
            exit_code: change.exit_code,
            note: change.note,
            log: change.log,
            ..created
        })
    }
}

impl CreateContainer {
    /// The request, with the options that are given and no others.
    pub(super) fn body(&self) -> Result<Value, ToolError> {
        let env = self.env.iter();
        let env: Vec<_> = env.map(|(key, value)| format!("{key}={value}")).collect();
        let ports = self.ports.as_deref();
        let mounts = self.mounts.iter().flatten().map(|mount| &mount.0);
        let ulimits = self.ulimits.iter().flatten();
        let ulimit = |(name, limit)| json!({"Name": name, "Soft": limit, "Hard": limit});
        let tmpfs = self.tmpfs.iter().flatten();
        let tmpfs = tmpfs.map(|mount| mount.split_once(':').unwrap_or((mount, "")));
        let security = self.no_new_privileges.map(|on| match on {
            true => vec!["no-new-privileges:true"],
            false => Vec::new(),
        });
        let host = json!({
            "PortBindings": ports.map(bindings),
            "Binds": self.mounts.as_ref().map(|_| mounts.collect::<Vec<_>>()),
            "AutoRemove": self.auto_remove.then_some(true),
            "Privileged": self.privileged,
            "CapAdd": self.cap_add,
            "CapDrop": self.cap_drop,
            "NetworkMode": self.network,
            "PidMode": self.pid,
            "IpcMode": self.ipc,
            "RestartPolicy": self.restart_policy()?,
            "Memory": self.memory_mb.map(memory_bytes),
            "NanoCpus": self.cpus.map(nano_cpus).transpose()?,
            "PidsLimit": self.pids.map(Bounded::get),
            "Ulimits": self.ulimits.as_ref().map(|_| ulimits.map(ulimit).collect::<Vec<_>>()),
            "ReadonlyRootfs": self.read_only,
            "Tmpfs": self.tmpfs.as_ref().map(|_| tmpfs.collect::<BTreeMap<_, _>>()),
            "SecurityOpt": security,
            "Dns": self.dns,
            "ExtraHosts": self.extra_hosts,
            "Init": self.init,
            "LogConfig": self.log_config(),
        });
        Ok(given(json!({
            "Image": self.image,
            "Env": (!env.is_empty()).then_some(env),
            "Labels": self.labels,
            "ExposedPorts": ports.map(exposed),
            "Cmd": self.command,
            "Entrypoint": self.entrypoint,
            "User": self.user,
            "WorkingDir": self.working_dir,
            "Hostname": self.hostname,
            "StopSignal": self.stop_signal,
            "Healthcheck": self.healthcheck.as_ref().map(HealthcheckSpec::config),
            "HostConfig": given(host),
            "NetworkingConfig": self.endpoints()?,
        })))
    }

    fn restart_policy(&self) -> Result<Option<Value>, ToolError> {
        match (self.restart, self.restart_retries) {
            (restart, None) => Ok(restart.map(|name| json!({"Name": name}))),
            (Some(name @ RestartPolicy::OnFailure), Some(most)) => {
                Ok(Some(json!({"Name": name, "MaximumRetryCount": most.get()})))
            }
            _ => Err(ToolError::invalid_argument(
                "restart_retries needs restart: on-failure.",
            )),
        }
    }

    /// The log driver with its rotation.
    fn log_config(&self) -> Option<Value> {
        let mut options = Map::new();
        if let Some(size) = self.log_max_mb {
            options.insert("max-size".to_owned(), format!("{}m", size.get()).into());
        }
        if let Some(most) = self.log_max_files {
            options.insert("max-file".to_owned(), most.get().to_string().into());
        }
        let default = (!options.is_empty()).then_some("json-file");
        let driver = self.log_driver.as_deref().or(default)?;
        Some(json!({"Type": driver, "Config": options}))
    }

    /// The names in its network.
    fn endpoints(&self) -> Result<Option<Value>, ToolError> {
        let Some(aliases) = &self.aliases else {
            return Ok(None);
        };
        let Some(network) = &self.network else {
            let text = "aliases need a network of your own: give network.";
            return Err(ToolError::invalid_argument(text));
        };
        let endpoints = json!({network: {"Aliases": aliases}});
        Ok(Some(json!({"EndpointsConfig": endpoints})))
    }
}

impl HealthcheckSpec {
    fn config(&self) -> Value {
        let mut test: Vec<&str> = self.command.iter().map(String::as_str).collect();
        match *test {
            ["NONE"] => {}
            [_] => test.insert(0, "CMD-SHELL"),
            _ => test.insert(0, "CMD"),
        }
        let nanoseconds = |seconds: Option<u32>| seconds.map(|s| i64::from(s) * 1_000_000_000);
        given(json!({
            "Test": test,
            "Interval": nanoseconds(self.interval_seconds),
            "Timeout": nanoseconds(self.timeout_seconds),
            "Retries": self.retries,
            "StartPeriod": nanoseconds(self.start_period_seconds),
        }))
    }
}

/// The object without the members that are not given.
fn given(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.retain(|_, value| !value.is_null());
    }
    object
}

/// `source:/path[:ro]`, where the source is a volume or a path of the host.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
struct MountSpec(String);

impl TryFrom<String> for MountSpec {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let parts: Vec<&str> = text.split(':').collect();
        // The engine has more options; they affect the host.
        let is_valid = match *parts {
            [source, target] | [source, target, "ro" | "rw"] => {
                let is_source = source.starts_with('/') || ObjectName::new(source).is_ok();
                is_source && target.starts_with('/') && !text.contains(['\0', '\n', ','])
            }
            _ => false,
        };
        match is_valid {
            true => Ok(Self(text)),
            false => Err("not a mount: write `volume:/path` or `/host/path:/path:ro`"),
        }
    }
}

/// `[[ip:]port:]port[/protocol]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
struct PortSpec {
    ip: String,
    /// Empty for any.
    host: String,
    /// `80/tcp`.
    inside: String,
}

impl PortSpec {
    fn parse(text: &str) -> Option<Self> {
        let (text, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        if !matches!(protocol, "tcp" | "udp" | "sctp") {
            return None;
        }
        let (rest, inside) = match text.rsplit_once(':') {
            Some((rest, inside)) => (Some(rest), inside),
            None => (None, text),
        };
        let (ip, host) = match rest.map(|rest| rest.rsplit_once(':').unwrap_or(("", rest))) {
            Some((ip, host)) => (ip.trim_start_matches('[').trim_end_matches(']'), host),
            None => ("", ""),
        };
        let is_port = |text: &str| text.parse::<u16>().is_ok_and(|port| port > 0);
        let is_ip = ip.is_empty() || ip.parse::<IpAddr>().is_ok();
        let is_host = host.is_empty() || is_port(host);
        (is_port(inside) && is_ip && is_host).then(|| Self {
            ip: ip.to_owned(),
            host: host.to_owned(),
            inside: format!("{inside}/{protocol}"),
        })
    }
}

/// As `HostConfig.PortBindings`. A port without an address is published on loopback only; for all
/// addresses callers write `0.0.0.0`.
fn bindings(ports: &[PortSpec]) -> BTreeMap<&str, Vec<Value>> {
    let mut bindings: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for port in ports {
        let ip = match &*port.ip {
            "" => "127.0.0.1",
            ip => ip,
        };
        let binding = json!({"HostIp": ip, "HostPort": port.host});
        bindings.entry(&port.inside).or_default().push(binding);
    }
    bindings
}

/// As `ExposedPorts`.
fn exposed(ports: &[PortSpec]) -> Value {
    let ports = ports.iter().map(|port| (port.inside.clone(), json!({})));
    Value::Object(ports.collect())
}

impl TryFrom<String> for PortSpec {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not a port: write `8080:80`, `127.0.0.1:8080:80/udp` or `80`")
    }
}

/// MiB; engines refuse less than six.
type Megabytes = Bounded<6, 4_000_000>;

/// When the engine starts a container again.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
enum RestartPolicy {
    No,
    Always,
    UnlessStopped,
    OnFailure,
}

/// Memory as the engine counts it.
fn memory_bytes(limit: Megabytes) -> i64 {
    i64::from(limit.get()) << 20
}

/// The limit of `memory` and swap together where the one before was not the engine's own, which is twice the memory:
/// no swap, any, or the one before if it is enough.
pub(super) fn swap_limit(memory: i64, old_memory: i64, old_swap: i64) -> Option<i64> {
    match old_swap {
        -1 => Some(-1),
        swap if swap > 0 && swap == old_memory => Some(memory),
        swap if swap != old_memory.saturating_mul(2) && swap >= memory => Some(swap),
        _ => None,
    }
}

/// CPUs as the engine counts them.
fn nano_cpus(cpus: f64) -> Result<i64, ToolError> {
    if !(0.01..=1024.0).contains(&cpus) {
        return Err(ToolError::invalid_argument(
            "cpus must be from 0.01 to 1024.",
        ));
    }
    // In range, so nothing is cut off.
    Ok((cpus * 1e9) as i64)
}

/// Rename or pause a container, or change its limits and restart policy, while it runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateContainer {
    /// Name or id.
    container: ContainerName,
    /// Renames it to this.
    new_name: Option<ContainerName>,
    /// Limits its memory, in MiB.
    memory_mb: Option<Megabytes>,
    /// Limits its CPUs, such as 0.5.
    cpus: Option<f64>,
    /// Limits its processes.
    pids: Option<Bounded<1, 4_000_000>>,
    restart: Option<RestartPolicy>,
    /// True freezes its processes, false resumes them.
    paused: Option<bool>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Updated {
    container: String,
    /// Changed settings.
    changed: Vec<&'static str>,
    /// The engine's remarks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl Tool for UpdateContainer {
    const NAME: &'static str = "update_container";
    // A lower limit may end it, others may look for its old name, and a pause interrupts its users.
    const EFFECT: Effect = Effect::PartlyDestructive;
    type Service = Docker;
    type Output = Updated;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Updated, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        let id = &before.id;
        let (limits, mut changed) = self.limits(&before.host_config)?;
        if changed.is_empty() && self.new_name.is_none() && self.paused.is_none() {
            return Err(ToolError::invalid_argument(
                "Nothing to change: give new_name, memory_mb, cpus, pids, restart or paused.",
            ));
        }
        // A new name breaks the connections of those that look for the old one.
        let is_lost = self.new_name.is_some() && before.state.is_alive();
        if is_lost || self.paused == Some(true) || self.is_lower(&before) {
            docker.policy.permit_destructive()?;
        }
        if let Some(name) = &self.new_name {
            permit_marks(name.as_str(), [])?;
            // Renaming must not bypass a rule about names.
            docker.policy.permit(name.as_str(), &before.config.labels)?;
            docker.permit_rename(&before).await?;
        }
        let asked = self.container.as_str();
        // Before the first change, so that the call does all or nothing where that can be known.
        if self.paused == Some(true) && !before.state.runs() {
            return Err(ToolError::conflict(format!(
                "`{asked}` does not run, so it cannot be paused."
            )));
        }
        if let Some(name) = self.new_name.as_ref()
            && docker
                .engine
                .try_inspect(name)
                .await
                .is_ok_and(|other| other.id != before.id)
        {
            return Err(ToolError::conflict(format!(
                "Another container has the name `{name}`."
            )));
        }
        let mut warnings = Vec::new();
        if !changed.is_empty() {
            let action = Action::on_container("update", asked);
            let path = Path::container(id, "/update");
            let receipt = docker.post(action, path, Some(&limits.into()), 0).await?;
            let redactor = docker.redactor();
            warnings.extend(texts(&receipt["Warnings"]).map(|line| redactor.text(line)));
        }
        if let Some(name) = &self.new_name {
            let path = Path::container(id, "/rename").query("name", name);
            let action = Action::on_container("rename", asked);
            let renamed = docker.post(action, path, None, 0).await;
            renamed.map_err(|error| after(&changed, error))?;
            changed.push("name");
        }
        if let Some(paused) = self.paused
            && paused != (before.state.status == "paused")
        {
            let (verb, path) = match paused {
                true => ("pause", Path::container(id, "/pause")),
                false => ("unpause", Path::container(id, "/unpause")),
            };
            let action = Action::on_container(verb, asked);
            let done = docker.post(action, path, None, 0).await;
            done.map_err(|error| after(&changed, error))?;
            changed.push("paused");
        }
        let name = self.new_name.as_ref();
        let name = name.map_or(before.display_name(), ContainerName::as_str);
        Ok(Updated {
            container: name.to_owned(),
            changed,
            warnings,
        })
    }
}

/// The error of a later step of a call that has changed this already.
fn after(changed: &[&str], error: ToolError) -> ToolError {
    if changed.is_empty() {
        return error;
    }
    let (changed, text) = (changed.join(", "), error.message());
    ToolError::new(
        error.kind(),
        format!("{text} These were changed before: {changed}."),
    )
}

impl UpdateContainer {
    /// Whether a limit is set below the present one.
    fn is_lower(&self, before: &ContainerDetails) -> bool {
        let host = &before.host_config;
        let cpus = self.cpus.map(|cpus| (cpus * 1e9) as i64);
        let limits = [
            (self.memory_mb.map(memory_bytes), host.memory),
            (cpus, host.nano_cpus),
            (self.pids.map(|pids| pids.get().into()), host.pids_limit),
        ];
        limits
            .iter()
            .any(|(asked, present)| asked.is_some_and(|asked| *present <= 0 || asked < *present))
    }

    /// The engine's request, and what it changes.
    fn limits(
        &self,
        before: &HostConfig,
    ) -> Result<(Map<String, Value>, Vec<&'static str>), ToolError> {
        let (memory, cpus) = (self.memory_mb.map(memory_bytes), self.cpus.map(nano_cpus));
        let own = |memory| swap_limit(memory, before.memory, before.memory_swap);
        let swap = memory.map(|memory| own(memory).unwrap_or(2 * memory));
        let restart = self.restart.map(|policy| {
            let (name, old) = (json!(policy), &before.restart_policy);
            let is_same = name == *old.name;
            let retries = is_same.then_some(old.maximum_retry_count);
            json!({"Name": name, "MaximumRetryCount": retries.unwrap_or_default()})
        });
        let settings = [
            ("memory", "Memory", memory.map(Value::from)),
            // The engine refuses a limit above that of memory and swap together.
            ("", "MemorySwap", swap.map(Value::from)),
            ("cpus", "NanoCpus", cpus.transpose()?.map(Value::from)),
            ("pids", "PidsLimit", self.pids.map(|pids| pids.get().into())),
            ("restart", "RestartPolicy", restart),
        ];
        let (mut limits, mut changed) = (Map::new(), Vec::new());
        for (name, member, value) in settings {
            if let Some(value) = value {
                limits.insert(member.to_owned(), value);
                changed.extend(Some(name).filter(|name| !name.is_empty()));
            }
        }
        Ok((limits, changed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_of_swap_stays_what_it_means() {
        for (old_memory, old_swap, expected) in [
            (64, 64, Some(32)),
            (64, -1, Some(-1)),
            (64, 128, None),
            (64, 1000, Some(1000)),
            (10, 30, None),
            (0, 0, None),
        ] {
            assert_eq!(swap_limit(32, old_memory, old_swap), expected);
        }
    }

    #[test]
    fn ports_are_parsed_as_by_docker_run() {
        for (text, ip, host, inside) in [
            ("80", "127.0.0.1", "", "80/tcp"),
            ("8080:80", "127.0.0.1", "8080", "80/tcp"),
            ("0.0.0.0:8080:80/udp", "0.0.0.0", "8080", "80/udp"),
            ("127.0.0.1::80", "127.0.0.1", "", "80/tcp"),
            ("[::1]:8080:80", "::1", "8080", "80/tcp"),
        ] {
            let expected = json!({inside: [{"HostIp": ip, "HostPort": host}]});
            let port = [PortSpec::parse(text).unwrap()];
            assert_eq!(json!(bindings(&port)), expected);
        }
        for text in " x 80/x 0 70000 a:80 1.2.3:1:80 8080: 1:2:3:4".split(' ') {
            assert!(PortSpec::parse(text).is_none(), "{text}");
        }
    }
}
