//! What we read of the engine's containers: `GET /containers/json` and `GET /containers/{id}/json`.
//!
//! Every field may be missing or null: engines differ by version, and Podman leaves some out. Names
//! and meanings are those of the Docker Engine API.

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde_json::Value;

use super::action::Kind;
use super::failure::Failure;
use super::path::Path;
use super::{Engine, MAX_OBJECT_BYTES, parse, within};
use crate::name::ContainerName;

/// One container of a list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Summary {
    pub(crate) id: String,
    pub(crate) names: Vec<String>,
    pub(crate) image: String,
    /// Unix seconds.
    pub(crate) created: i64,
    pub(crate) ports: Vec<Port>,
    pub(crate) labels: BTreeMap<String, String>,
    /// `running`, `exited`, …
    pub(crate) state: String,
    /// For people: `Up 5 minutes (healthy)`.
    pub(crate) status: String,
}

/// A port of a listed container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Port {
    #[serde(rename = "IP")]
    pub(crate) ip: String,
    #[serde(rename = "PrivatePort")]
    pub(crate) private: u16,
    /// 0 where it is not published.
    #[serde(rename = "PublicPort")]
    pub(crate) public: u16,
    #[serde(rename = "Type")]
    pub(crate) protocol: String,
}

/// One container in detail.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Details {
    pub(crate) id: String,
    pub(crate) name: String,
    /// RFC 3339.
    pub(crate) created: String,
    /// The command as it is run: the program, then [`Details::args`].
    pub(crate) path: String,
    pub(crate) args: Vec<String>,
    pub(crate) state: State,
    pub(crate) restart_count: i64,
    pub(crate) config: Config,
    pub(crate) host_config: HostConfig,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) network_settings: NetworkSettings,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct State {
    /// `created`, `running`, `paused`, `restarting`, `removing`, `exited`, `dead`.
    pub(crate) status: String,
    #[serde(rename = "OOMKilled")]
    pub(crate) oom_killed: bool,
    /// Of the last run.
    pub(crate) exit_code: i64,
    /// Why it could not be started.
    pub(crate) error: String,
    /// RFC 3339; the year 1 where it never was.
    pub(crate) started_at: String,
    pub(crate) finished_at: String,
    pub(crate) health: Option<Health>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Health {
    pub(crate) status: String,
    pub(crate) failing_streak: i64,
    /// Oldest first.
    pub(crate) log: Vec<Probe>,
}

/// One run of a health check.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Probe {
    pub(crate) end: String,
    pub(crate) exit_code: i64,
    pub(crate) output: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Config {
    pub(crate) user: String,
    pub(crate) tty: bool,
    /// `KEY=value`.
    pub(crate) env: Vec<String>,
    pub(crate) image: String,
    pub(crate) working_dir: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) healthcheck: Option<Healthcheck>,
    /// Seconds between SIGTERM and SIGKILL; 10 where it is not set.
    pub(crate) stop_timeout: Option<u32>,
}

/// How the engine finds out whether a container is healthy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Healthcheck {
    /// `CMD` and a command, or `CMD-SHELL` and a line for a shell.
    pub(crate) test: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct HostConfig {
    pub(crate) restart_policy: RestartPolicy,
    /// The engine removes it when it ends.
    pub(crate) auto_remove: bool,
    pub(crate) log_config: LogConfig,
    pub(crate) network_mode: String,
    /// By `80/tcp`.
    pub(crate) port_bindings: BTreeMap<String, Vec<PortBinding>>,
    pub(crate) privileged: bool,
    /// Bytes; 0 is no limit.
    pub(crate) memory: i64,
    /// Billionths of a CPU; 0 is no limit.
    pub(crate) nano_cpus: i64,
    pub(crate) pids_limit: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct RestartPolicy {
    pub(crate) name: String,
    pub(crate) maximum_retry_count: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct LogConfig {
    #[serde(rename = "Type")]
    pub(crate) driver: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Mount {
    #[serde(rename = "Type")]
    pub(crate) kind: String,
    /// Of a volume.
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) destination: String,
    #[serde(rename = "RW")]
    pub(crate) writable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct NetworkSettings {
    /// By `80/tcp`.
    pub(crate) ports: BTreeMap<String, Vec<PortBinding>>,
    /// By name.
    pub(crate) networks: BTreeMap<String, Network>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PortBinding {
    #[serde(rename = "HostIp")]
    pub(crate) ip: String,
    #[serde(rename = "HostPort")]
    pub(crate) port: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Network {
    #[serde(rename = "IPAddress")]
    pub(crate) ip_address: String,
}

impl Details {
    /// The name without the slash that the engine puts before it.
    pub(crate) fn display_name(&self) -> &str {
        self.name.trim_start_matches('/')
    }

    /// The identifier by which it is changed: its id, since a name may go to another container
    /// between two requests.
    /// Errors when the engine's id is none.
    pub(crate) fn container_id(&self) -> Result<ContainerName, ToolError> {
        ContainerName::new(&self.id).map_err(|_| {
            ToolError::upstream("The Docker Engine reports a container without an id.")
        })
    }
}

impl Summary {
    /// Its first name, without the slash that the engine puts before it.
    pub(crate) fn display_name(&self) -> &str {
        let name = self.names.first().map_or("", String::as_str);
        name.trim_start_matches('/')
    }
}

impl Mount {
    /// Whether it is a volume that nobody has named.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.kind == "volume" && is_anonymous(&self.name)
    }
}

/// The engine names a volume that nobody has named with 64 hexadecimal digits.
pub(crate) fn is_anonymous(volume: &str) -> bool {
    volume.len() == 64 && volume.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl State {
    /// Whether its main process lives, also where it is paused.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(&*self.status, "running" | "paused" | "restarting")
    }

    /// Whether its main process lives now: one that is restarted has none between two runs.
    pub(crate) fn runs(&self) -> bool {
        self.is_alive() && self.status != "restarting"
    }
}

impl Engine {
    /// The running containers, or `all`, in the engine's order.
    pub(crate) async fn containers(&self, all: bool) -> Result<Vec<Summary>, ToolError> {
        let path = Path::to("/containers/json").query("all", all);
        Ok(summaries(self.get(path).await?))
    }

    /// The newest containers, stopped ones too.
    pub(crate) async fn newest_containers(&self, most: usize) -> Result<Vec<Summary>, ToolError> {
        let path = Path::to("/containers/json").query("limit", most);
        Ok(summaries(self.get(path).await?))
    }

    /// The details of one container.
    pub(crate) async fn inspect(&self, container: &ContainerName) -> Result<Details, ToolError> {
        match self.try_inspect(container).await {
            Ok(details) => Ok(details),
            Err(failure) => {
                let object = (Kind::Container, container.as_str());
                Err(self.explain_about(failure, object, None).await)
            }
        }
    }

    /// The details of one container, for callers that expect it to be gone.
    pub(crate) async fn try_inspect(&self, container: &ContainerName) -> Result<Details, Failure> {
        let path = Path::to("/containers").id(container).then("/json");
        within(self.timeout, self.read(path, MAX_OBJECT_BYTES)).await
    }
}

/// The containers of a list. One that is not understood keeps its id, and its neighbours.
fn summaries(listed: Vec<Value>) -> Vec<Summary> {
    listed.into_iter().map(summary).collect()
}

fn summary(container: Value) -> Summary {
    let id = container["Id"].as_str().unwrap_or_default().to_owned();
    parse(container).unwrap_or_else(|error| {
        tracing::warn!(%id, %error, "a container of the list is not understood");
        Summary {
            id,
            state: "unknown".to_owned(),
            ..Summary::default()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_container_does_not_spoil_the_list() {
        let list = r#"[
            {"Id":"a","Names":["/web"],"State":"hibernating","Ports":null,"Labels":null,"New":1},
            {"Id":"b","Names":"no list"},
            {}
        ]"#;
        let list = summaries(serde_json::from_str(list).unwrap());
        assert_eq!(list[0].state, "hibernating");
        assert_eq!(
            (list[1].id.as_str(), list[1].state.as_str()),
            ("b", "unknown")
        );
        assert_eq!(list.len(), 3);
    }

    #[test]
    fn nulls_are_empty() {
        let json = r#"{"Id":"a","Config":{"Env":null,"Cmd":null},"State":{"Health":null},
            "NetworkSettings":{"Ports":{"80/tcp":null}},"HostConfig":{"PidsLimit":null}}"#;
        let details: Details = parse(serde_json::from_str(json).unwrap()).unwrap();
        assert!(details.config.env.is_empty() && details.state.health.is_none());
        assert!(details.network_settings.ports["80/tcp"].is_empty());
    }
}
