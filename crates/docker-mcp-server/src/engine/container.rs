//! What we read of the engine's containers: `GET /containers/json` and `GET /containers/{id}/json`.
//!
//! Every field may be missing or null: engines differ by version, and Podman leaves some out. Names
//! and meanings are those of the Docker Engine API.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

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

/// Reads the containers of a list. One that is not understood keeps its id, and its neighbours.
pub(super) fn parse_list(json: &[u8]) -> serde_json::Result<Vec<Summary>> {
    let containers: Vec<Value> = serde_json::from_slice(json)?;
    Ok(containers.into_iter().map(parse_summary).collect())
}

fn parse_summary(container: Value) -> Summary {
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

/// Reads one container.
pub(super) fn parse_details(json: &[u8]) -> serde_json::Result<Details> {
    parse(serde_json::from_slice(json)?)
}

/// Null is how the engine writes an empty list, and what a field that is missing means.
pub(super) fn parse<T: DeserializeOwned>(mut value: Value) -> serde_json::Result<T> {
    strip_nulls(&mut value);
    serde_json::from_value(value)
}

fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            // A port that is exposed and not published has null for its bindings: the key counts.
            for (key, member) in members.iter_mut() {
                if member.is_null() && key.contains('/') {
                    *member = Value::Array(Vec::new());
                }
            }
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(strip_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        _ => {}
    }
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
        let list = parse_list(list.as_bytes()).unwrap();
        assert_eq!(list[0].state, "hibernating");
        assert_eq!(
            (list[1].id.as_str(), list[1].state.as_str()),
            ("b", "unknown")
        );
        assert_eq!(list.len(), 3);
        assert!(parse_list(b"<html>").is_err());
        assert!(parse_list(br#"{"message":"x"}"#).is_err());
    }

    #[test]
    fn nulls_are_empty() {
        let json = r#"{"Id":"a","Config":{"Env":null,"Cmd":null},"State":{"Health":null},
            "NetworkSettings":{"Ports":{"80/tcp":null}},"HostConfig":{"PidsLimit":null}}"#;
        let details = parse_details(json.as_bytes()).unwrap();
        assert!(details.config.env.is_empty() && details.state.health.is_none());
        assert!(details.network_settings.ports["80/tcp"].is_empty());
    }
}
