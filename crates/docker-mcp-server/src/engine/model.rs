//! Models of the engine's containers, images, networks and volumes.
//!
//! Every field may be missing or null: engines differ by version, and Podman omits some. Names
//! and meanings are those of the Docker Engine API.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use upstream::text::truncate_list;

use crate::engine::error::EngineError;
use crate::engine::name::{ContainerName, ObjectName};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ContainerSummary {
    pub(crate) id: ContainerName,
    pub(crate) names: Vec<String>,
    pub(crate) image: String,
    #[serde(rename = "ImageID")]
    pub(crate) image_id: String,
    /// Unix seconds.
    pub(crate) created: i64,
    pub(crate) ports: Vec<PortSummary>,
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "by_destination")]
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
    /// The identifier for changes: a name may move to another container between two requests.
    pub(crate) id: ContainerName,
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
    #[serde(deserialize_with = "by_destination")]
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
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct HostConfig {
    pub(crate) restart_policy: RestartPolicy,
    /// The engine removes it when it exits.
    pub(crate) auto_remove: bool,
    pub(crate) log_config: LogConfig,
    pub(crate) network_mode: String,
    /// Podman's is `oci` by default.
    pub(crate) runtime: String,
    /// By `80/tcp`.
    pub(crate) port_bindings: BTreeMap<String, Vec<PortBinding>>,
    pub(crate) privileged: bool,
    /// Bytes; 0 is no limit.
    pub(crate) memory: i64,
    /// With the memory; -1 is no limit.
    pub(crate) memory_swap: i64,
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

/// The engine lists the mounts of a container in another order each time; a question to the user must stay the same.
fn by_destination<'de, D: Deserializer<'de>>(mounts: D) -> Result<Vec<MountPoint>, D::Error> {
    let mut mounts = Vec::<MountPoint>::deserialize(mounts)?;
    mounts.sort_by(|a, b| a.destination.cmp(&b.destination));
    Ok(mounts)
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

    /// Its TCP ports that are published.
    pub(crate) fn published_tcp(&self) -> impl Iterator<Item = u16> {
        let ports = self.network_settings.ports.iter();
        let published = ports.filter(|(_, bindings)| !bindings.is_empty());
        published.filter_map(|(port, _)| port.strip_suffix("/tcp")?.parse().ok())
    }

    /// The id or name of the container whose network it uses.
    pub(crate) fn network_owner(&self) -> Option<&str> {
        self.host_config.network_mode.strip_prefix("container:")
    }

    /// Whether it is connected to the network `name`.
    pub(crate) fn is_in_network(&self, name: &str) -> bool {
        self.network_settings.networks.contains_key(name)
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

    /// Whether this is its name, its id, or the beginning of its id.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.display_name() == name || self.id.starts_with(name)
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

    /// Whether it runs, and its health check fails.
    pub(crate) fn is_unhealthy(&self) -> bool {
        let health = self.health.as_ref();
        self.runs() && health.is_some_and(|health| health.status == "unhealthy")
    }
}

/// The meaning of the exit code of a container's last run.
pub(crate) fn exit_meaning(code: i64, oom_killed: bool) -> Cow<'static, str> {
    if oom_killed {
        return "killed because it used more memory than its limit".into();
    }
    match code {
        0 => "success".into(),
        125 => "the engine could not run it".into(),
        126 => "the command is not executable".into(),
        127 => "the command was not found".into(),
        128 => "the engine could not start it".into(),
        130 => "SIGINT: interrupted".into(),
        134 => "SIGABRT: the program gave up".into(),
        137 => "SIGKILL: killed from outside, or it did not stop in time".into(),
        139 => "SIGSEGV: the program crashed".into(),
        143 => "SIGTERM: asked to stop".into(),
        129..=192 => format!("signal {}", code - 128).into(),
        _ => "the application's own error".into(),
    }
}

/// Most ports that are shown of one container; a range may publish thousands.
const MAX_PORTS: usize = 20;

/// The ports of a listed container.
pub(crate) fn ports_of_summary(ports: &[PortSummary]) -> Vec<String> {
    let mut ports: Vec<&PortSummary> = ports.iter().collect();
    ports.sort_by_key(|port| (port.private, &port.protocol, port.public, &port.ip));
    let ports = ports.into_iter().map(|port| {
        let inside = format!("{}/{}", port.private, port.protocol);
        match port.public {
            0 => inside,
            public => published_port(&port.ip, &public.to_string(), &inside),
        }
    });
    truncate_list(ports, MAX_PORTS)
}

/// The ports of an inspected container, from the engine's map of `80/tcp` to host addresses.
pub(crate) fn ports_of_bindings(ports: &BTreeMap<String, Vec<PortBinding>>) -> Vec<String> {
    let ports = ports.iter().flat_map(|(inside, bindings)| {
        let unpublished = bindings.is_empty().then(|| inside.clone());
        let published = bindings.iter();
        let published = published.map(move |at| published_port(&at.ip, &at.port, inside));
        unpublished.into_iter().chain(published)
    });
    truncate_list(ports, MAX_PORTS)
}

fn published_port(ip: &str, port: &str, inside: &str) -> String {
    match ip {
        "" => format!("{port}->{inside}"),
        ip if ip.contains(':') => format!("[{ip}]:{port}->{inside}"),
        ip => format!("{ip}:{port}->{inside}"),
    }
}

/// An image of the list (`GET /images/json`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ImageSummary {
    pub(crate) id: String,
    pub(crate) repo_tags: Vec<String>,
    pub(crate) created: i64,
    pub(crate) size: i64,
    pub(crate) labels: BTreeMap<String, String>,
}

/// One image (`GET /images/{name}/json`).
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ImageDetails {
    pub(crate) id: String,
    pub(crate) repo_tags: Vec<String>,
    pub(crate) repo_digests: Vec<String>,
    pub(crate) created: String,
    pub(crate) size: i64,
    pub(crate) os: String,
    pub(crate) architecture: String,
    pub(crate) config: ImageConfig,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ImageConfig {
    pub(crate) user: String,
    pub(crate) working_dir: String,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) cmd: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) exposed_ports: BTreeMap<String, Value>,
    pub(crate) volumes: BTreeMap<String, Value>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) healthcheck: Option<Value>,
}

/// A network (`GET /networks`, `GET /networks/{id}`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Network {
    pub(crate) id: ObjectName,
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) scope: String,
    pub(crate) internal: bool,
    pub(crate) created: String,
    #[serde(rename = "IPAM")]
    pub(crate) ipam: Ipam,
    pub(crate) labels: BTreeMap<String, String>,
    /// By id; empty in a list of networks.
    pub(crate) containers: BTreeMap<String, AttachedContainer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Ipam {
    pub(crate) config: Vec<Subnet>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Subnet {
    pub(crate) subnet: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AttachedContainer {
    #[serde(rename = "Name")]
    pub(crate) name: String,
    #[serde(rename = "IPv4Address")]
    pub(crate) ip_address: String,
}

/// A volume (`GET /volumes`, `GET /volumes/{name}`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) mountpoint: String,
    pub(crate) created_at: String,
    pub(crate) labels: BTreeMap<String, String>,
    /// Of its driver.
    pub(crate) options: BTreeMap<String, String>,
}

impl Volume {
    /// The directory or the disk of the host that it mounts, if its options name one; not always a path, as of a file
    /// system that joins several directories. A network file system has its server in the same place.
    pub(crate) fn host_path(&self) -> Option<&str> {
        let option = |name: &str| self.options.get(name).map_or("", String::as_str);
        if !matches!(&*self.driver, "" | "local") {
            // Each driver has a name of its own for it.
            let mut values = self.options.values().map(String::as_str);
            return values.find(|value| value.starts_with('/'));
        }
        let is_beside = matches!(option("type"), "nfs" | "nfs4" | "cifs" | "smb3" | "tmpfs");
        Some(option("device")).filter(|device| !device.is_empty() && !is_beside)
    }
}

impl ImageSummary {
    /// Its names, without the placeholder of some engines for an image without a name.
    pub(crate) fn tags(&self) -> impl Iterator<Item = &str> {
        let tags = self.repo_tags.iter().map(String::as_str);
        tags.filter(|tag| *tag != "<none>:<none>")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Container,
    Image,
    Network,
    Volume,
}

impl ObjectKind {
    /// Its word in the engine's messages.
    pub(crate) fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Whether the engine reports that this object is missing. A request may also fail because of
    /// another object: a network is connected to a container.
    pub(crate) fn is_missing(self, failure: &EngineError) -> bool {
        let EngineError::Refused {
            status: 404,
            message,
        } = failure
        else {
            return false;
        };
        let message = message.to_ascii_lowercase();
        let word = self.word();
        message.contains(&format!("no such {word}"))
            || (message.contains(&word) && message.contains("not found"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_written_as_by_docker_ps() {
        let port = |ip: &str, private, public| PortSummary {
            ip: ip.to_owned(),
            private,
            public,
            protocol: "tcp".to_owned(),
        };
        let ports = [("::", 80, 8080), ("", 443, 0), ("127.0.0.1", 80, 8080)];
        let ports = ports.map(|(ip, private, public)| port(ip, private, public));
        let expected = ["127.0.0.1:8080->80/tcp", "[::]:8080->80/tcp", "443/tcp"];
        assert_eq!(ports_of_summary(&ports), expected);
        let many: Vec<PortSummary> = (1..=1_000).map(|n| port("", n, n)).collect();
        assert_eq!(ports_of_summary(&many).last().unwrap(), "and 980 more");
    }
}
