//! `create_container`.

use std::collections::HashMap;

use bollard::models::{ContainerCreateBody, HostConfig};

use self::mount::MountSpec;
use self::port::PortSpec;
use super::limits::{Megabytes, RestartPolicy, memory_bytes, nano_cpus};
use super::prelude::*;
use super::state_change;
use super::{ports, start_container};

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
    #[serde(default)]
    command: Vec<String>,
    /// Default: the image's.
    #[serde(default)]
    entrypoint: Vec<String>,
    /// Environment variables.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Labels.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// `8080:80`, `127.0.0.1:8080:80/udp`, or `80` for any free port.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    ports: Vec<PortSpec>,
    /// `volume:/path`, `/host/path:/path`, each with `:ro`.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    mounts: Vec<MountSpec>,
    /// Network, or `none`, `host`.
    network: Option<String>,
    restart: Option<RestartPolicy>,
    /// Memory limit in MiB.
    memory_mb: Option<Megabytes>,
    /// CPU limit, as 0.5.
    cpus: Option<f64>,
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
    #[serde(default)]
    privileged: bool,
    /// Capabilities to add.
    #[serde(default)]
    cap_add: Vec<String>,
    /// Process namespace, as `host`.
    pid: Option<String>,
    /// IPC namespace, as `host`.
    ipc: Option<String>,
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
        let engine = &docker.engine;
        let created = docker.create_container(self.name.as_ref(), self.body()?);
        let (id, warnings) = created.await?;
        let redactor = docker.redactor();
        let warnings = warnings.iter().map(|line| redactor.text(line)).collect();
        let before = engine.inspect(&id).await?;
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

impl CreateContainer {
    /// The engine's request (`POST /containers/create`).
    fn body(&self) -> Result<ContainerCreateBody, ToolError> {
        let labels: HashMap<_, _> = self.labels.clone().into_iter().collect();
        let env = self.env.iter();
        let env = env.map(|(key, value)| format!("{key}={value}"));
        let given = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
        let host = HostConfig {
            port_bindings: Some(port::bindings(&self.ports)),
            binds: Some(self.mounts.iter().map(MountSpec::to_string).collect()),
            auto_remove: Some(self.auto_remove),
            privileged: Some(self.privileged),
            cap_add: Some(self.cap_add.clone()),
            network_mode: self.network.clone(),
            pid_mode: self.pid.clone(),
            ipc_mode: self.ipc.clone(),
            restart_policy: self.restart.map(Into::into),
            memory: self.memory_mb.map(memory_bytes),
            nano_cpus: self.cpus.map(nano_cpus).transpose()?,
            ..HostConfig::default()
        };
        Ok(ContainerCreateBody {
            image: Some(self.image.to_string()),
            env: Some(env.collect()),
            labels: Some(labels),
            exposed_ports: Some(port::exposed(&self.ports)),
            cmd: given(&self.command),
            entrypoint: given(&self.entrypoint),
            user: self.user.clone(),
            working_dir: self.working_dir.clone(),
            host_config: Some(host),
            ..ContainerCreateBody::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_become_the_engines_request() {
        let asked = r#"{"image":"busybox","command":["sleep","1"],"env":{"A":"b=c"},
            "ports":["127.0.0.1:8080:80"],"mounts":["data:/data:ro"],"memory_mb":64,"cpus":0.5,
            "restart":"unless-stopped"}"#;
        let tool: CreateContainer = serde_json::from_str(asked).unwrap();
        let body = serde_json::to_value(tool.body().unwrap()).unwrap();
        assert_eq!(body["Env"], json!(["A=b=c"]));
        let host = &body["HostConfig"];
        assert_eq!(host["Binds"], json!(["data:/data:ro"]));
        assert_eq!(host["Memory"], 64 << 20);
        assert_eq!(host["NanoCpus"], 500_000_000);
        assert_eq!(host["RestartPolicy"]["Name"], "unless-stopped");
        assert!(body.get("Entrypoint").is_none() && host.get("PidMode").is_none());
    }
}
