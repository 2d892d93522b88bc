//! Models of the engine's containers: `GET /containers/json` and `GET /containers/{id}/json`.
//!
//! Every field may be missing or null: engines differ by version, and Podman omits some. Names
//! and meanings are those of the Docker Engine API.

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde_json::Value;

use crate::engine::client::{Engine, MAX_OBJECT_BYTES, parse, within};
use crate::engine::connector::ByteStream;
use crate::engine::error::EngineError;
use crate::engine::name::ContainerName;
use crate::engine::path::Path;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ContainerSummary {
    pub(crate) id: String,
    pub(crate) names: Vec<String>,
    pub(crate) image: String,
    #[serde(rename = "ImageID")]
    pub(crate) image_id: String,
    /// Unix seconds.
    pub(crate) created: i64,
    pub(crate) ports: Vec<PortSummary>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) mounts: Vec<MountPoint>,
    /// `running`, `exited`, …
    pub(crate) state: String,
    /// For people: `Up 5 minutes (healthy)`.
    pub(crate) status: String,
    /// Its networks only.
    pub(crate) network_settings: NetworkSettings,
}

/// A port of a listed container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PortSummary {
    #[serde(rename = "IP")]
    pub(crate) ip: String,
    #[serde(rename = "PrivatePort")]
    pub(crate) private: u16,
    /// 0 if it is not published.
    #[serde(rename = "PublicPort")]
    pub(crate) public: u16,
    #[serde(rename = "Type")]
    pub(crate) protocol: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ContainerDetails {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The image's id.
    pub(crate) image: String,
    /// RFC 3339.
    pub(crate) created: String,
    /// On the engine's machine; empty if its log driver writes no file.
    pub(crate) log_path: String,
    /// The program; its arguments are in [`ContainerDetails::args`].
    pub(crate) path: String,
    pub(crate) args: Vec<String>,
    pub(crate) state: ContainerState,
    pub(crate) restart_count: i64,
    pub(crate) config: Config,
    pub(crate) host_config: HostConfig,
    pub(crate) mounts: Vec<MountPoint>,
    pub(crate) network_settings: NetworkSettings,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ContainerState {
    /// `created`, `running`, `paused`, `restarting`, `removing`, `exited`, `dead`.
    pub(crate) status: String,
    #[serde(rename = "OOMKilled")]
    pub(crate) oom_killed: bool,
    /// Of the last run.
    pub(crate) exit_code: i64,
    /// The reason why it could not be started.
    pub(crate) error: String,
    /// RFC 3339; the year 1 if it was never started.
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
    pub(crate) log: Vec<HealthProbe>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct HealthProbe {
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
    /// Seconds between SIGTERM and SIGKILL; 10 if it is not set.
    pub(crate) stop_timeout: Option<u32>,
}

/// The health check of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Healthcheck {
    /// `CMD` and a command, or `CMD-SHELL` and a line for a shell.
    pub(crate) test: Vec<String>,
    /// Nanoseconds; 30 s if it is zero.
    pub(crate) interval: i64,
    pub(crate) timeout: i64,
    /// Nanoseconds in which failures do not count.
    pub(crate) start_period: i64,
    /// Failures in a row that make it unhealthy; 3 if it is zero.
    pub(crate) retries: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct HostConfig {
    pub(crate) restart_policy: RestartPolicy,
    /// The engine removes it when it exits.
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
    /// Options of the tmpfs at each path.
    pub(crate) tmpfs: BTreeMap<String, String>,
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
    /// Options of the driver.
    #[serde(rename = "Config")]
    pub(crate) config: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct MountPoint {
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
    pub(crate) networks: BTreeMap<String, EndpointSettings>,
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
pub(crate) struct EndpointSettings {
    #[serde(rename = "IPAddress")]
    pub(crate) ip_address: String,
}

impl ContainerDetails {
    /// The name without the slash that the engine puts before it.
    pub(crate) fn display_name(&self) -> &str {
        self.name.trim_start_matches('/')
    }

    /// Whether it is connected to the network `name`.
    pub(crate) fn is_in_network(&self, name: &str) -> bool {
        self.network_settings.networks.contains_key(name)
    }

    /// The identifier for changes: its id, since a name may move to another container between two
    /// requests.
    /// Errors when the engine's id is not valid.
    pub(crate) fn container_id(&self) -> Result<ContainerName, ToolError> {
        let no_id = |_| ToolError::upstream("The Docker Engine reports a container without an id.");
        ContainerName::new(&self.id).map_err(no_id)
    }
}

impl ContainerSummary {
    /// Its own name, without the slash that the engine puts before it. A container to which others
    /// link has further names, with two slashes.
    pub(crate) fn display_name(&self) -> &str {
        let mut names = self.names.iter();
        let own = names.find(|name| name.matches('/').count() <= 1);
        let name = own.or(self.names.first());
        name.map_or("", |name| name.trim_start_matches('/'))
    }
}

impl MountPoint {
    /// Whether it is an anonymous volume.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.kind == "volume" && is_anonymous(&self.name)
    }
}

/// Whether the name was made by the engine: it consists of 64 hexadecimal digits.
pub(crate) fn is_anonymous(volume: &str) -> bool {
    volume.len() == 64 && volume.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl ContainerState {
    /// Whether it was started and has not exited; also true if it is paused or restarting.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(&*self.status, "running" | "paused" | "restarting")
    }

    /// Whether its main process exists now: a restarting container has none between two runs.
    pub(crate) fn runs(&self) -> bool {
        self.is_alive() && self.status != "restarting"
    }
}

impl Engine {
    /// The running containers, or `all`, in the engine's order.
    pub(crate) async fn containers(&self, all: bool) -> Result<Vec<ContainerSummary>, ToolError> {
        let path = Path::to("/containers/json").query("all", all);
        Ok(summaries(self.get(path).await?))
    }

    /// The newest containers, stopped ones included.
    pub(crate) async fn newest_containers(
        &self,
        most: usize,
    ) -> Result<Vec<ContainerSummary>, ToolError> {
        let path = Path::to("/containers/json").query("limit", most);
        Ok(summaries(self.get(path).await?))
    }

    /// The details of one container.
    pub(crate) async fn try_inspect(
        &self,
        container: &ContainerName,
    ) -> Result<ContainerDetails, EngineError> {
        let path = Path::container(container, "/json");
        within(self.timeout(), self.read(path, MAX_OBJECT_BYTES)).await
    }

    /// The archive of what a container has at `path`. The caller has to apply a timeout.
    pub(crate) fn download(&self, container: &ContainerName, path: &str) -> ByteStream {
        let path = Path::container(container, "/archive").query("path", path);
        self.connector.stream(path)
    }
}

/// The containers of a list. One that cannot be parsed keeps its id and does not fail the list.
fn summaries(listed: Vec<Value>) -> Vec<ContainerSummary> {
    let summary = |container: Value| {
        let id = container["Id"].as_str().unwrap_or_default().to_owned();
        parse(container).unwrap_or_else(|error| {
            tracing::warn!(%id, %error, "a container of the list cannot be parsed");
            ContainerSummary {
                id,
                state: "unknown".to_owned(),
                ..ContainerSummary::default()
            }
        })
    };
    listed.into_iter().map(summary).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_container_does_not_fail_the_list() {
        let list = r#"[
            {"Id":"a","Names":["/web"],"State":"hibernating","Ports":null,"Labels":null,"New":1},
            {"Id":"b","Names":"no list"},
            {}
        ]"#;
        let list = summaries(serde_json::from_str(list).unwrap());
        assert_eq!(list[0].state, "hibernating");
        assert_eq!((&*list[1].id, &*list[1].state), ("b", "unknown"));
        assert_eq!(list.len(), 3);
    }

    #[test]
    fn null_members_are_empty() {
        let json = r#"{"Id":"a","Config":{"Env":null,"Cmd":null},"State":{"Health":null},
            "NetworkSettings":{"Ports":{"80/tcp":null}},"HostConfig":{"PidsLimit":null}}"#;
        let details: ContainerDetails = parse(serde_json::from_str(json).unwrap()).unwrap();
        assert!(details.config.env.is_empty() && details.state.health.is_none());
        assert!(details.network_settings.ports["80/tcp"].is_empty());
    }
}
