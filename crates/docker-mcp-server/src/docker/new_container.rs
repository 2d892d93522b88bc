//! New containers: the request to the engine is checked as it will be sent, so that no option of any
//! tool reaches the engine past the policy.

use std::collections::BTreeMap;

use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType};
use mcp_core::tool::ToolError;
use serde_json::{Value, json};

use super::{Action, Docker};
use crate::engine::{ContainerName, Engine, ImageName, ObjectKind, ObjectName, Path};
use crate::policy::{CREATED, Policy, PrivilegeRequest, Subject};

/// Members of `HostConfig` that stay inside of the container.
const CONTAINED: &str = "AutoRemove BlkioWeight CapDrop ConsoleSize CpuPeriod CpuQuota CpuShares \
    CpusetCpus CpusetMems Dns DnsOptions DnsSearch ExtraHosts GroupAdd Init Memory \
    MemoryReservation MemorySwap MemorySwappiness NanoCpus PidsLimit PortBindings PublishAllPorts \
    ReadonlyRootfs RestartPolicy ShmSize Sysctls Tmpfs Ulimits";
/// Members of `HostConfig` that are checked by their values.
const CHECKED: &str = "Binds CapAdd CgroupnsMode IpcMode LogConfig Mounts NetworkMode PidMode \
    Privileged Runtime SecurityOpt UTSMode UsernsMode VolumeDriver";
/// Log drivers that write to the engine's own files.
const LOCAL_LOG_DRIVERS: &str = "json-file local journald k8s-file none";
/// Options of log drivers that name no place to write to; Podman's drivers have a path among theirs.
const LOG_OPTIONS: &str =
    "compress env env-regex labels labels-regex max-buffer-size max-file max-size mode tag";
/// Network modes that name no network.
const NO_NETWORK: [&str; 5] = ["", "none", "private", "slirp4netns", "pasta"];

/// The volumes, networks and host paths that a new container would use.
#[derive(Default)]
struct Uses<'a> {
    /// With whether it may write.
    volumes: Vec<(&'a str, bool)>,
    binds: Vec<&'a str>,
    networks: Vec<&'a str>,
    others: Vec<String>,
}

impl Docker {
    /// Creates a container, with the volumes that it lacks, all marked as this server's; does not start
    /// it. Returns its id and the engine's warnings.
    /// Errors when the policy does not allow it, or the engine refuses it.
    pub(crate) async fn create_container(
        &self,
        name: Option<&ContainerName>,
        mut body: ContainerCreateBody,
    ) -> Result<(ContainerName, Vec<String>), ToolError> {
        let name = name.map_or("", ContainerName::as_str);
        for volume in self.permit_container(name, &body).await? {
            self.create_volume(&volume, BTreeMap::new()).await?;
        }
        let labels = body.labels.get_or_insert_default();
        labels.insert(CREATED.to_owned(), "true".to_owned());
        let image = body.image.clone().unwrap_or_default();
        let shown = if name.is_empty() { "a container" } else { name };
        let action = Action::on_container("create", shown).with_required(ObjectKind::Image, &image);
        let mut path = Path::to("/containers/create");
        if !name.is_empty() {
            path = path.query("name", name);
        }
        let created = self.post_json(action, path, &json!(body)).await?;
        let id = ContainerName::new(created["Id"].as_str().unwrap_or_default())
            .map_err(|_| ToolError::upstream("The Docker Engine gave the container no id."))?;
        let warnings = created["Warnings"].as_array().into_iter().flatten();
        let warnings = warnings.filter_map(Value::as_str).map(str::to_owned);
        Ok((id, warnings.collect()))
    }

    /// Checks all that a new container would touch against the policy: its name and labels, its
    /// volumes and networks as the engine resolves them, and its access to the host. Returns the
    /// volumes that do not exist yet.
    /// Errors when the policy does not allow it.
    pub(crate) async fn permit_container(
        &self,
        name: &str,
        body: &ContainerCreateBody,
    ) -> Result<Vec<ObjectName>, ToolError> {
        let default = HostConfig::default();
        let host = body.host_config.as_ref().unwrap_or(&default);
        let uses = Uses::new(body, host);
        let mut namespaces = uses.networks.clone();
        let cgroup = host.cgroupns_mode.map(|mode| mode.to_string());
        let modes = [
            &host.pid_mode,
            &host.ipc_mode,
            &host.uts_mode,
            &host.userns_mode,
            &cgroup,
        ];
        namespaces.extend(modes.into_iter().flatten().map(String::as_str));
        let request = PrivilegeRequest {
            privileged: host.privileged.unwrap_or_default(),
            capabilities: host.cap_add.as_deref().unwrap_or_default(),
            binds: uses.binds,
            sees_host: self.engine.is_beside_us(),
            others: uses.others,
            namespaces: namespaces.clone(),
        };
        self.policy.permit_create(&request)?;
        let given = body.image.as_deref().unwrap_or_default();
        let labels = body.labels.iter().flatten();
        let labels = labels.map(|(key, value)| (key.clone(), value.clone()));
        let labels = labels.collect();
        ImageName::new(given)
            .map_err(|_| ToolError::invalid_argument("This is not the name of an image."))?;
        self.policy.permit(&Subject::new(name, &labels))?;
        for other in namespaces
            .iter()
            .filter_map(|mode| mode.strip_prefix("container:"))
        {
            let other = ContainerName::new(other).map_err(invalid)?;
            self.mutable_container(&other).await?;
        }
        for network in &uses.networks {
            self.permit_network(network).await?;
        }
        let mut missing = Vec::new();
        for (volume, writable) in uses.volumes {
            let name = ObjectName::new(volume).map_err(invalid)?;
            match self.try_volume(&name).await? {
                Some(found) if writable => self.policy.permit_write(volume, &found.labels)?,
                Some(_) => {}
                None => missing.push(name),
            }
        }
        Ok(missing)
    }

    /// Refuses a network that the policy hides, and the host's under any name.
    pub(crate) async fn permit_network(&self, mode: &str) -> Result<(), ToolError> {
        if mode.contains(':') || NO_NETWORK.contains(&mode) {
            return Ok(());
        }
        if matches!(mode, "default" | "bridge") {
            // The names of the engine's own network, of Docker and of Podman.
            let (none, mut names) = (BTreeMap::new(), ["bridge", "podman"].into_iter());
            return names.try_for_each(|name| self.policy.permit_use(&Subject::new(name, &none)));
        }
        let network = self
            .network(&ObjectName::new(mode).map_err(invalid)?)
            .await?;
        let is_host = network.driver == "host" || network.name == "host";
        self.policy.permit_create(&PrivilegeRequest {
            namespaces: if is_host { vec!["host"] } else { Vec::new() },
            ..PrivilegeRequest::default()
        })
    }

    /// Creates a volume that is marked as this server's.
    pub(crate) async fn create_volume(
        &self,
        name: &ObjectName,
        labels: BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        let mut labels = labels;
        labels.insert(CREATED.to_owned(), "true".to_owned());
        // No driver options: they could mount any path of the host.
        let request = json!({"Name": name, "Driver": "local", "Labels": labels});
        let action = Action::new("create", ObjectKind::Volume, name.as_str());
        let path = Path::to("/volumes/create");
        self.post_json(action, path, &request).await.map(drop)
    }
}

/// The paths of the host that a container mounts, once they may be mounted now: links are resolved by the
/// engine at each start, so one may have been put there since it was created. None if they are not visible.
/// Errors when one must not be mounted.
pub(crate) async fn permit_start(
    engine: &Engine,
    policy: &Policy,
    id: &ContainerName,
) -> Result<Vec<String>, ToolError> {
    if !engine.is_beside_us() {
        return Ok(Vec::new());
    }
    let details: Value = engine.get(Path::container(id, "/json")).await?;
    let host = &details["HostConfig"];
    let mounts = host["Mounts"].as_array().into_iter().flatten();
    let mounts: Vec<_> = mounts.filter(|mount| mount["Type"] == "bind").collect();
    let host = json!({"Binds": host["Binds"], "Mounts": mounts});
    let host: HostConfig = serde_json::from_value(host).map_err(|error| {
        ToolError::upstream("The mounts of the container cannot be read.").caused_by(error)
    })?;
    let body = ContainerCreateBody::default();
    let binds = Uses::new(&body, &host).binds;
    let is_own = !details["Config"]["Labels"][CREATED].is_null();
    for path in &binds {
        policy.permit_start(path, is_own)?;
    }
    Ok(binds.into_iter().map(str::to_owned).collect())
}

impl<'a> Uses<'a> {
    fn new(body: &'a ContainerCreateBody, host: &'a HostConfig) -> Self {
        let mut uses = Self::default();
        for bind in host.binds.iter().flatten() {
            uses.bind(bind);
        }
        for mount in host.mounts.iter().flatten() {
            uses.mount(mount);
        }
        let mode = host.network_mode.as_deref().unwrap_or("default");
        uses.networks.push(mode);
        let endpoints = body.networking_config.as_ref();
        let endpoints = endpoints.and_then(|config| config.endpoints_config.as_ref());
        let endpoints = endpoints.into_iter().flatten();
        uses.networks
            .extend(endpoints.map(|(name, _)| name.as_str()));
        uses.options(host);
        uses
    }

    /// `source:/path[:options]`.
    fn bind(&mut self, bind: &'a str) {
        let mut parts = bind.split(':');
        match (parts.next().unwrap_or_default(), parts.next()) {
            (source, Some(_)) if source.starts_with('/') => self.binds.push(source),
            (source, Some(_)) => {
                let mut options = parts.next().unwrap_or_default().split(',');
                self.volumes
                    .push((source, !options.any(|option| option == "ro")));
            }
            // A path alone is an anonymous volume.
            (_, None) => {}
        }
    }

    fn mount(&mut self, mount: &'a Mount) {
        let source = mount.source.as_deref().unwrap_or_default();
        let writable = mount.read_only != Some(true);
        let options = mount.volume_options.as_ref();
        match mount.typ {
            Some(MountType::BIND) => self.binds.push(source),
            Some(MountType::TMPFS) => {}
            Some(MountType::VOLUME) if options.is_none_or(|at| at.driver_config.is_none()) => {
                if !source.is_empty() {
                    self.volumes.push((source, writable));
                }
            }
            _ => self.others.push("this kind of mount".to_owned()),
        }
    }

    /// An option that is set and not known to be harmless counts as one that reaches the host.
    fn options(&mut self, host: &HostConfig) {
        let known = |name: &str| {
            let mut known = CONTAINED.split(' ').chain(CHECKED.split(' '));
            known.any(|known| known == name)
        };
        let set = serde_json::to_value(host).unwrap_or_default();
        for (name, value) in set.as_object().into_iter().flatten() {
            // An empty list of masked paths unmasks all of them.
            let is_unset = is_empty(value) && !matches!(&**name, "MaskedPaths" | "ReadonlyPaths");
            if !is_unset && !value.is_null() && !known(name) {
                self.others.push(name.clone());
            }
        }
        let security = host.security_opt.iter().flatten();
        let security = security.filter(|option| !option.starts_with("no-new-privileges"));
        self.others.extend(security.cloned());
        let log = host.log_config.as_ref();
        let options = log.and_then(|log| log.config.as_ref());
        for option in options.into_iter().flat_map(|options| options.keys()) {
            if !LOG_OPTIONS.split(' ').any(|known| known == option) {
                self.others.push(format!("the log option {option}"));
            }
        }
        let log = log.and_then(|log| log.typ.as_ref());
        for (option, given, harmless) in [
            ("log driver", log, LOCAL_LOG_DRIVERS),
            ("runtime", host.runtime.as_ref(), "runc crun"),
            ("volume driver", host.volume_driver.as_ref(), "local"),
        ] {
            let is_harmless = |given: &&String| {
                given.is_empty() || harmless.split(' ').any(|known| known == **given)
            };
            if let Some(given) = given.filter(|given| !is_harmless(given)) {
                self.others.push(format!("the {option} {given}"));
            }
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

fn invalid(error: crate::engine::InvalidName) -> ToolError {
    ToolError::invalid_argument(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The options of a request that no exception covers one by one.
    fn others(host: Value) -> Vec<String> {
        let host: HostConfig = serde_json::from_value(host).unwrap();
        Uses::new(&ContainerCreateBody::default(), &host).others
    }

    #[test]
    fn unknown_options_count_as_access_to_the_host() {
        for host in [
            json!({"Devices": [{"PathOnHost": "/dev/sda"}]}),
            json!({"DeviceCgroupRules": ["a *:* rwm"]}),
            json!({"CgroupParent": "/x"}),
            json!({"SecurityOpt": ["seccomp=unconfined"]}),
            json!({"MaskedPaths": []}),
            json!({"VolumesFrom": ["db"]}),
            json!({"Links": ["db"]}),
            json!({"Runtime": "other"}),
            json!({"VolumeDriver": "nfs"}),
            json!({"LogConfig": {"Type": "syslog", "Config": {}}}),
            json!({"LogConfig": {"Type": "k8s-file", "Config": {"path": "/etc/x"}}}),
            json!({"Mounts": [{"Type": "volume", "Source": "x", "Target": "/x",
                "VolumeOptions": {"DriverConfig": {"Options": {"device": "/", "o": "bind"}}}}]}),
            json!({"Mounts": [{"Type": "image", "Source": "x", "Target": "/x"}]}),
        ] {
            assert_eq!(others(host.clone()).len(), 1, "{host}");
        }
        let harmless = json!({"Init": true, "CapDrop": ["ALL"], "Ulimits": [], "Devices": [],
            "SecurityOpt": ["no-new-privileges:true"], "Tmpfs": {"/tmp": "size=1m"}, "Runtime": "runc", "Links": null,
            "LogConfig": {"Type": "local", "Config": {"max-size": "10m"}}});
        assert_eq!(others(harmless), [""; 0]);
    }
}
