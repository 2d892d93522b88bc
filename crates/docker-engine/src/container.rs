//! Models of the engine's containers: `GET /containers/json` and `GET /containers/{id}/json`.
//!
//! Every field may be missing or null: engines differ by version, and Podman omits some. Names
//! and meanings are those of the Docker Engine API.

#![expect(missing_docs, reason = "the Docker Engine API documents the members")]

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde_json::Value;

use crate::connector::ByteStream;
use crate::engine::{Engine, MAX_OBJECT_BYTES, parse, within};
use crate::error::EngineError;
use crate::name::ContainerName;
use crate::path::Path;

/// One container of a list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ContainerSummary {
    pub id: String,
    pub names: Vec<String>,
    pub image: String,
    #[serde(rename = "ImageID")]
    pub image_id: String,
    /// Unix seconds.
    pub created: i64,
    pub ports: Vec<PortSummary>,
    pub labels: BTreeMap<String, String>,
    pub mounts: Vec<MountPoint>,
    /// `running`, `exited`, …
    pub state: String,
    /// For people: `Up 5 minutes (healthy)`.
    pub status: String,
    /// Its networks only.
    pub network_settings: NetworkSettings,
}

/// A port of a listed container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PortSummary {
    #[serde(rename = "IP")]
    pub ip: String,
    #[serde(rename = "PrivatePort")]
    pub private: u16,
    /// 0 if it is not published.
    #[serde(rename = "PublicPort")]
    pub public: u16,
    #[serde(rename = "Type")]
    pub protocol: String,
}

/// One container in detail.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ContainerDetails {
    pub id: String,
    pub name: String,
    /// The image's id.
    pub image: String,
    /// RFC 3339.
    pub created: String,
    /// On the engine's machine; empty if its log driver writes no file.
    pub log_path: String,
    /// The program; its arguments are in [`ContainerDetails::args`].
    pub path: String,
    pub args: Vec<String>,
    pub state: ContainerState,
    pub restart_count: i64,
    pub config: Config,
    pub host_config: HostConfig,
    pub mounts: Vec<MountPoint>,
    pub network_settings: NetworkSettings,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ContainerState {
    /// `created`, `running`, `paused`, `restarting`, `removing`, `exited`, `dead`.
    pub status: String,
    #[serde(rename = "OOMKilled")]
    pub oom_killed: bool,
    /// Of the last run.
    pub exit_code: i64,
    /// The reason why it could not be started.
    pub error: String,
    /// RFC 3339; the year 1 if it was never started.
    pub started_at: String,
    pub finished_at: String,
    pub health: Option<Health>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Health {
    pub status: String,
    pub failing_streak: i64,
    /// Oldest first.
    pub log: Vec<HealthProbe>,
}

/// One run of a health check.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct HealthProbe {
    pub end: String,
    pub exit_code: i64,
    pub output: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Config {
    pub user: String,
    pub tty: bool,
    /// `KEY=value`.
    pub env: Vec<String>,
    pub image: String,
    pub working_dir: String,
    pub labels: BTreeMap<String, String>,
    pub healthcheck: Option<Healthcheck>,
    /// Seconds between SIGTERM and SIGKILL; 10 if it is not set.
    pub stop_timeout: Option<u32>,
}

/// Of a health check that does not say: the interval and the timeout, and the failures in a row.
const DEFAULT_CHECK_SECONDS: i64 = 30;
const DEFAULT_RETRIES: i64 = 3;

/// The health check of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Healthcheck {
    /// `CMD` and a command, or `CMD-SHELL` and a line for a shell.
    pub test: Vec<String>,
    /// Nanoseconds; 30 s if it is zero.
    pub interval: i64,
    pub timeout: i64,
    /// Nanoseconds in which failures do not count.
    pub start_period: i64,
    /// Failures in a row that make it unhealthy; 3 if it is zero.
    pub retries: i64,
}

impl Healthcheck {
    /// The time until a started container is healthy or unhealthy.
    pub fn longest_start(&self) -> Duration {
        let nanos = |value: i64| Duration::from_nanos(value.try_into().unwrap_or(0));
        let or = |value: i64, default: i64| if value > 0 { value } else { default };
        let run = |value: i64| nanos(or(value, DEFAULT_CHECK_SECONDS * 1_000_000_000));
        let retries = or(self.retries, DEFAULT_RETRIES).try_into();
        let each = run(self.interval).saturating_add(run(self.timeout));
        let all = each.saturating_mul(retries.unwrap_or(u32::MAX));
        nanos(self.start_period).saturating_add(all)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct HostConfig {
    pub restart_policy: RestartPolicy,
    /// The engine removes it when it exits.
    pub auto_remove: bool,
    pub log_config: LogConfig,
    pub network_mode: String,
    /// By `80/tcp`.
    pub port_bindings: BTreeMap<String, Vec<PortBinding>>,
    pub privileged: bool,
    /// Bytes; 0 is no limit.
    pub memory: i64,
    /// Billionths of a CPU; 0 is no limit.
    pub nano_cpus: i64,
    pub pids_limit: i64,
    /// Options of the tmpfs at each path.
    pub tmpfs: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RestartPolicy {
    pub name: String,
    pub maximum_retry_count: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct LogConfig {
    #[serde(rename = "Type")]
    pub driver: String,
    /// Options of the driver.
    #[serde(rename = "Config")]
    pub config: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct MountPoint {
    #[serde(rename = "Type")]
    pub kind: String,
    /// Of a volume.
    pub name: String,
    pub source: String,
    pub destination: String,
    #[serde(rename = "RW")]
    pub writable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NetworkSettings {
    /// By `80/tcp`.
    pub ports: BTreeMap<String, Vec<PortBinding>>,
    /// By name.
    pub networks: BTreeMap<String, EndpointSettings>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PortBinding {
    #[serde(rename = "HostIp")]
    pub ip: String,
    #[serde(rename = "HostPort")]
    pub port: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EndpointSettings {
    #[serde(rename = "IPAddress")]
    pub ip_address: String,
}

impl ContainerDetails {
    /// The name without the slash that the engine puts before it.
    pub fn display_name(&self) -> &str {
        self.name.trim_start_matches('/')
    }

    /// Whether it is connected to the network `name`.
    pub fn is_in_network(&self, name: &str) -> bool {
        self.network_settings.networks.contains_key(name)
    }

    /// The identifier for changes: its id, since a name may move to another container between two
    /// requests.
    /// Errors when the engine's id is not valid.
    pub fn container_id(&self) -> Result<ContainerName, ToolError> {
        let no_id = |_| ToolError::upstream("The Docker Engine reports a container without an id.");
        ContainerName::new(&self.id).map_err(no_id)
    }
}

impl ContainerSummary {
    /// Its own name, without the slash that the engine puts before it. A container to which others
    /// link has further names, with two slashes.
    pub fn display_name(&self) -> &str {
        let mut names = self.names.iter();
        let own = names.find(|name| name.matches('/').count() <= 1);
        let name = own.or(self.names.first());
        name.map_or("", |name| name.trim_start_matches('/'))
    }
}

impl MountPoint {
    /// Whether it is an anonymous volume.
    pub fn is_anonymous(&self) -> bool {
        self.kind == "volume" && is_anonymous(&self.name)
    }
}

/// Whether the name was made by the engine: it consists of 64 hexadecimal digits.
pub fn is_anonymous(volume: &str) -> bool {
    volume.len() == 64 && volume.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl ContainerState {
    /// Whether it was started and has not exited; also true if it is paused or restarting.
    pub fn is_alive(&self) -> bool {
        matches!(&*self.status, "running" | "paused" | "restarting")
    }

    /// Whether its main process exists now: a restarting container has none between two runs.
    pub fn runs(&self) -> bool {
        self.is_alive() && self.status != "restarting"
    }
}

impl Engine {
    /// The running containers, or `all`, in the engine's order.
    pub async fn containers(&self, all: bool) -> Result<Vec<ContainerSummary>, ToolError> {
        let path = Path::to("/containers/json").query("all", all);
        Ok(summaries(self.get(path).await?))
    }

    /// The newest containers, stopped ones included.
    pub async fn newest_containers(&self, most: usize) -> Result<Vec<ContainerSummary>, ToolError> {
        let path = Path::to("/containers/json").query("limit", most);
        Ok(summaries(self.get(path).await?))
    }

    /// The details of one container.
    pub async fn try_inspect(
        &self,
        container: &ContainerName,
    ) -> Result<ContainerDetails, EngineError> {
        let path = Path::container(container, "/json");
        within(self.timeout(), self.read(path, MAX_OBJECT_BYTES)).await
    }

    /// The archive of what a container has at `path`. The caller has to apply a timeout.
    pub fn download(&self, container: &ContainerName, path: &str) -> ByteStream {
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
    fn health_check_says_how_long_a_start_may_take() {
        for (check, seconds) in [
            ("{}", 180),
            (
                r#"{"Interval":500000000,"Timeout":1000000000,"Retries":50}"#,
                75,
            ),
            (
                r#"{"StartPeriod":120000000000,"Interval":10000000000,"Timeout":5000000000}"#,
                165,
            ),
            (r#"{"StartPeriod":-1,"Retries":-1,"Interval":-1}"#, 180),
        ] {
            let check: Healthcheck = serde_json::from_str(check).unwrap();
            assert_eq!(check.longest_start().as_secs(), seconds);
        }
        let check = r#"{"Retries":9223372036854775807,"Interval":9223372036854775807}"#;
        let check: Healthcheck = serde_json::from_str(check).unwrap();
        assert!(check.longest_start() > Duration::from_secs(600));
    }

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
