//! `create_container`.

use std::collections::BTreeMap;

use http::Method;
use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::mount::Mount;
use self::port::Port;
use super::change::{self, Change};
use super::short_id;
use super::start_container::{self, known_cause};
use super::update_container::nano_cpus;
use crate::Docker;
use crate::engine::{Asked, Body, Kind, Path};
use crate::name::{ContainerName, ImageName};
use crate::policy::{CREATED, Subject, Wanted};

mod mount;
mod port;

/// Create a container from an image and start it. Options that reach the host need the operator's
/// policy.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateContainer {
    /// Must exist here; else pull_image first.
    image: ImageName,
    /// Default: one that the engine makes up.
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
    /// Labels of its own.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// `8080:80`, `127.0.0.1:8080:80/udp`, or `80` for any free port.
    #[serde(default)]
    ports: Vec<Port>,
    /// `volume:/path`, `/host/path:/path`, each with `:ro`.
    #[serde(default)]
    mounts: Vec<Mount>,
    /// Network, or `none`, `host`.
    network: Option<String>,
    restart: Option<RestartPolicy>,
    /// Memory limit in MiB.
    memory_mb: Option<Bounded<6, 4_000_000>>,
    /// CPU limit, as 0.5.
    cpus: Option<f64>,
    /// User or uid to run as.
    user: Option<String>,
    /// Directory to start in.
    working_dir: Option<String>,
    /// Remove it when it ends.
    #[serde(default)]
    auto_remove: bool,
    /// Do not start it.
    #[serde(default)]
    only_create: bool,
    /// Only where the policy allows it, as the next three.
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

/// When the engine starts a container again.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RestartPolicy {
    No,
    Always,
    UnlessStopped,
    OnFailure,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Created {
    id: String,
    name: String,
    /// `created`, `running`, or how it ended at once.
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<String>,
    /// Its last lines, where it ended at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
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
        self.check(docker)?;
        let engine = &docker.engine;
        let mut path = Path::to("/containers/create");
        if let Some(name) = &self.name {
            path = path.query("name", name);
        }
        let body = Body::json(&self.body()?);
        let receipt = match engine.change(Method::POST, path, body).await {
            Ok(receipt) => receipt,
            Err(failure) => {
                let asked = Asked::Change("create", self.name());
                let (kind, name) = (Kind::Image, self.image.as_str());
                return Err(engine.explain_missing(failure, kind, name, asked).await);
            }
        };
        let mut redactor = docker.redactor();
        let said = receipt["Warnings"].as_array().into_iter().flatten();
        let said = said.filter_map(|line| Some(redactor.text(line.as_str()?)));
        let warnings: Vec<String> = said.collect();
        let id = receipt["Id"].as_str().unwrap_or_default();
        let id = ContainerName::new(id)
            .map_err(|_| ToolError::upstream("The Docker Engine gave the container no id."))?;
        let before = engine.inspect(&id).await?;
        let mut created = Created {
            id: short_id(&before.id).to_owned(),
            name: before.display_name().to_owned(),
            state: before.state.status.clone(),
            exit_code: None,
            ports: Vec::new(),
            log: None,
            note: None,
            warnings,
        };
        if self.only_create {
            return Ok(created);
        }
        if let Err(failure) = engine.start(&id).await {
            let shown = ContainerName::new(before.display_name()).unwrap_or(id.clone());
            let cause = match known_cause(&shown, &failure) {
                Some(error) => error,
                None => {
                    let asked = Asked::Change("start", shown.as_str());
                    engine.explain_about(failure, &shown, asked).await
                }
            };
            let text = format!(
                "`{shown}` was created, and does not start. {} It is still there: remove_container \
                 removes it.",
                cause.message()
            );
            return Err(ToolError::new(cause.kind(), text));
        }
        let change = change::settle(docker, &before).await?;
        created.ports = start_container::ports(docker, &id).await;
        Ok(created.after(change))
    }
}

impl Created {
    fn after(self, change: Change) -> Self {
        let (state, exit_code, note, log) = change.into_parts();
        Self {
            state,
            exit_code,
            note,
            log,
            ..self
        }
    }
}

impl CreateContainer {
    fn name(&self) -> &str {
        self.name
            .as_ref()
            .map_or("a container", ContainerName::as_str)
    }

    /// Refuses what the policy does not allow, before anything is asked of the engine.
    fn check(&self, docker: &Docker) -> Result<(), ToolError> {
        let namespaces = self.pid.iter().chain(&self.ipc).map(String::as_str);
        docker.policy.check_create(&Wanted {
            privileged: self.privileged,
            network: self.network.as_deref(),
            namespaces: namespaces.collect(),
            capabilities: &self.cap_add,
            binds: self.mounts.iter().filter_map(Mount::host_path).collect(),
        })?;
        docker.permit(&Subject::Container {
            name: self.name.as_ref().map_or("", ContainerName::as_str),
            image: self.image.as_str(),
            labels: &self.labels,
        })
    }

    /// The engine's request (`POST /containers/create`).
    fn body(&self) -> Result<Value, ToolError> {
        let mut labels = self.labels.clone();
        labels.insert(CREATED.to_owned(), "true".to_owned());
        let env: Vec<String> = self
            .env
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let mut host = json!({
            "PortBindings": port::bindings(&self.ports),
            "Binds": self.mounts,
            "AutoRemove": self.auto_remove,
            "Privileged": self.privileged,
            "CapAdd": self.cap_add,
        });
        let optional = [
            ("NetworkMode", self.network.clone().map(Value::from)),
            ("PidMode", self.pid.clone().map(Value::from)),
            ("IpcMode", self.ipc.clone().map(Value::from)),
            (
                "RestartPolicy",
                self.restart.map(|policy| json!({"Name": policy.as_str()})),
            ),
            (
                "Memory",
                self.memory_mb
                    .map(|memory| (u64::from(memory.get()) << 20).into()),
            ),
            (
                "NanoCpus",
                self.cpus.map(nano_cpus).transpose()?.map(Value::from),
            ),
        ];
        for (key, value) in optional {
            if let Some(value) = value {
                host[key] = value;
            }
        }
        let mut body = json!({
            "Image": self.image,
            "Env": env,
            "Labels": labels,
            "ExposedPorts": port::exposed(&self.ports),
            "HostConfig": host,
        });
        let lists = [("Cmd", &self.command), ("Entrypoint", &self.entrypoint)];
        for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            body[key] = json!(list);
        }
        for (key, text) in [("User", &self.user), ("WorkingDir", &self.working_dir)] {
            if let Some(text) = text {
                body[key] = json!(text);
            }
        }
        Ok(body)
    }
}

impl RestartPolicy {
    /// The engine's name for it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Always => "always",
            Self::UnlessStopped => "unless-stopped",
            Self::OnFailure => "on-failure",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_is_asked_for_what_was_meant() {
        let asked = r#"{"image":"busybox","command":["sleep","1"],"env":{"A":"b=c"},
            "ports":["127.0.0.1:8080:80"],"mounts":["data:/data:ro"],"memory_mb":64,"cpus":0.5,
            "restart":"unless-stopped"}"#;
        let body = serde_json::from_str::<CreateContainer>(asked)
            .unwrap()
            .body()
            .unwrap();
        assert_eq!(body["Env"], json!(["A=b=c"]));
        assert_eq!(body["Labels"][CREATED], "true");
        let host = &body["HostConfig"];
        assert_eq!(host["Binds"], json!(["data:/data:ro"]));
        assert_eq!(host["Memory"], 64 << 20);
        assert_eq!(host["NanoCpus"], 500_000_000);
        assert_eq!(host["RestartPolicy"]["Name"], "unless-stopped");
        assert!(body.get("Entrypoint").is_none() && host.get("PidMode").is_none());
    }
}
