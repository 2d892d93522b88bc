//! `create_container`.

use std::net::IpAddr;

use self::mount::MountSpec;
use self::port::PortSpec;
use super::limits::{Megabytes, RestartPolicy};
use super::prelude::*;
use super::start_container;
use super::state_change;
use crate::engine::ports;
use crate::policy::permit_marks;

mod body;
mod mount;
mod port;

/// Create a container from an image and start it. Options that reach the host need the operator's
/// policy.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateContainer {
    /// Must exist here; else pull_image first.
    image: ImageName,
    /// Default: the engine chooses.
    name: Option<ContainerName>,
    /// Program and arguments; default: the image's.
    command: Option<Vec<String>>,
    /// Default: the image's.
    entrypoint: Option<Vec<String>>,
    /// Environment variables.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Labels.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// `8080:80`, `127.0.0.1:8080:80/udp`, or `80` for any free port.
    #[schemars(with = "Option<Vec<String>>")]
    ports: Option<Vec<PortSpec>>,
    /// `volume:/path`, `/host/path:/path`, each with `:ro`.
    #[schemars(with = "Option<Vec<String>>")]
    mounts: Option<Vec<MountSpec>>,
    /// Network, or `none`, `host`.
    network: Option<String>,
    /// Further names of it there.
    aliases: Option<Vec<ContainerName>>,
    restart: Option<RestartPolicy>,
    /// Most restarts of `on-failure`.
    restart_retries: Option<Bounded<1, 1000>>,
    /// Memory limit in MiB.
    memory_mb: Option<Megabytes>,
    /// CPU limit, as 0.5.
    cpus: Option<f64>,
    /// Process limit.
    pids: Option<Bounded<1, 4_000_000>>,
    /// As `{"nofile": 65536}`.
    ulimits: Option<BTreeMap<String, i64>>,
    healthcheck: Option<HealthcheckSpec>,
    /// Root filesystem.
    read_only: Option<bool>,
    /// `/path` or `/path:size=64m`, in memory.
    tmpfs: Option<Vec<String>>,
    /// As `ALL`.
    cap_drop: Option<Vec<String>>,
    /// No setuid.
    no_new_privileges: Option<bool>,
    /// Default: its id.
    hostname: Option<ContainerName>,
    /// Name servers.
    #[schemars(with = "Option<Vec<String>>")]
    dns: Option<Vec<IpAddr>>,
    /// `name:address`.
    extra_hosts: Option<Vec<String>>,
    /// A process 1 that reaps.
    init: Option<bool>,
    /// Default: SIGTERM.
    stop_signal: Option<String>,
    /// As `json-file`.
    log_driver: Option<String>,
    /// Rotates the log.
    log_max_mb: Option<Bounded<1, 100_000>>,
    /// Rotated files to keep.
    log_max_files: Option<Bounded<1, 1000>>,
    /// User or uid to run as.
    user: Option<String>,
    /// Directory to start in.
    working_dir: Option<String>,
    /// Remove it when it exits.
    #[serde(default)]
    auto_remove: bool,
    /// Do not start it.
    #[serde(default)]
    only_create: bool,
    /// Only if the policy allows it, as the next three.
    privileged: Option<bool>,
    /// Capabilities to add.
    cap_add: Option<Vec<String>>,
    /// Process namespace, as `host`.
    pid: Option<String>,
    /// IPC namespace, as `host`.
    ipc: Option<String>,
}

/// Health check.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HealthcheckSpec {
    /// Program and arguments, one line for a shell, or `NONE`.
    command: Vec<String>,
    /// Default 30.
    interval_seconds: Option<u32>,
    /// Default 30.
    timeout_seconds: Option<u32>,
    /// Default 3.
    retries: Option<u32>,
    /// Failures at first do not count.
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
        if let Err(cause) = start_container::start(docker, &shown, &id).await {
            let text = format!(
                "`{shown}` was created, and does not start. {} It is still there: remove_container \
                 removes it.",
                cause.message()
            );
            return Err(ToolError::new(cause.kind(), text));
        }
        let change = state_change::watch_early_exit(docker, &before).await?;
        // Best effort: it may be removed by now.
        if let Ok(now) = engine.try_inspect(&id).await {
            created.ports = ports::from_bindings(&now.network_settings.ports);
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
