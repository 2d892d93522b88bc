//! New containers, volumes and networks: the request to the engine is checked as it will be sent, so that no option of any
//! tool reaches the engine past the policy.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use mcp_core::tool::ToolError;
use serde_json::{Value, json};

use super::{Action, Docker};
use crate::engine::{
    ContainerDetails, ContainerName, ImageName, Network, ObjectKind, ObjectName, Path, Volume,
    is_anonymous,
};
use crate::json::{items, members, text, texts};
use crate::policy::{CREATED, MARK, Reach, is_created};

/// Members of `HostConfig` that stay inside of the container.
const CONTAINED: &str = "AutoRemove BlkioWeight CapDrop ConsoleSize CpuPeriod CpuQuota CpuShares \
    CpusetCpus CpusetMems Dns DnsOptions DnsSearch ExtraHosts GroupAdd Init Memory \
    MemoryReservation MemorySwap MemorySwappiness NanoCpus PidsLimit PortBindings PublishAllPorts \
    ReadonlyRootfs RestartPolicy ShmSize Sysctls Tmpfs Ulimits";
/// Members of `HostConfig` that are checked by their values.
const CHECKED: &str = "Binds CapAdd CgroupnsMode IpcMode LogConfig Mounts NetworkMode PidMode \
    Privileged Runtime SecurityOpt UTSMode UsernsMode VolumeDriver";
/// Members of `HostConfig` with the mode of a namespace, beside that of its network.
const NAMESPACES: [&str; 5] = [
    "PidMode",
    "IpcMode",
    "UTSMode",
    "UsernsMode",
    "CgroupnsMode",
];
/// Log drivers that write to the engine's own files.
const LOCAL_LOG_DRIVERS: &str = "json-file local journald k8s-file none";
/// Options of log drivers that name no place to write to; Podman's drivers have a path among theirs.
const LOG_OPTIONS: &str =
    "compress env env-regex labels labels-regex max-buffer-size max-file max-size mode tag";
/// Network modes of Podman that name no network; on Docker they may be the name of one.
const PODMAN_MODES: [&str; 3] = ["private", "slirp4netns", "pasta"];

/// The volumes and networks that a new container would use, and its options that may reach out of it.
#[derive(Default)]
struct Uses<'a> {
    /// With whether it may write.
    volumes: Vec<(&'a str, bool)>,
    networks: Vec<&'a str>,
    reaches: Vec<Reach<'a>>,
    sees_host: bool,
}

impl Docker {
    /// Creates a container, with the volumes that it lacks, all marked as this server's; does not start
    /// it. Returns its id and the engine's warnings.
    /// Errors when the policy does not allow it, or the engine refuses it.
    pub(crate) async fn create_container(
        &self,
        name: Option<&ContainerName>,
        mut body: Value,
    ) -> Result<(ContainerName, Vec<String>), ToolError> {
        let name = name.map_or("", ContainerName::as_str);
        let missing = self.permit_container(name, &body).await?;
        body["Labels"][CREATED] = MARK.into();
        let image = text(&body["Image"]);
        let shown = if name.is_empty() { "a container" } else { name };
        let action = Action::on_container("create", shown).with_required(ObjectKind::Image, image);
        let mut path = Path::to("/containers/create");
        if !name.is_empty() {
            path = path.query("name", name);
        }
        let mut volumes = Vec::new();
        let created = async {
            for volume in &missing {
                self.create_volume(volume, BTreeMap::new()).await?;
                volumes.push(format!("`{volume}`"));
            }
            self.post(action, path, Some(&body), 0).await
        };
        let created = created.await.map_err(|error| match &*volumes.join(", ") {
            "" => error,
            volumes => {
                let text = format!(
                    "{} These volumes were created before, and stay: {volumes}. remove_volume removes them.",
                    error.message()
                );
                ToolError::new(error.kind(), text).caused_by(error)
            }
        })?;
        let id = ContainerName::new(text(&created["Id"]))
            .map_err(|_| ToolError::upstream("The Docker Engine gave the container no id."))?;
        let warnings = texts(&created["Warnings"]).map(str::to_owned);
        Ok((id, warnings.collect()))
    }

    /// Checks all that a new container would touch against the policy: its name and labels, its
    /// volumes and networks as the engine resolves them, and its access to the host. Returns the
    /// volumes that do not exist yet.
    /// Errors when the policy does not allow it.
    pub(crate) async fn permit_container(
        &self,
        name: &str,
        body: &Value,
    ) -> Result<Vec<ObjectName>, ToolError> {
        let uses = Uses::new(body, self.engine.is_beside_us());
        for reach in &uses.reaches {
            self.policy.permit_create(reach)?;
        }
        let labels = members(&body["Labels"]);
        let labels =
            labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let labels = labels.collect();
        ImageName::new(text(&body["Image"]))
            .map_err(|_| ToolError::invalid_argument("This is not the name of an image."))?;
        self.policy.permit(name, &labels)?;
        for reach in &uses.reaches {
            let Reach::Namespace(mode) = reach else {
                continue;
            };
            let Some(other) = mode.strip_prefix("container:") else {
                continue;
            };
            let other = ContainerName::new(other)?;
            self.mutable_container(&other).await?;
        }
        for mode in &uses.networks {
            let Some(network) = self.permit_network(mode).await? else {
                continue;
            };
            let aliases = &body["NetworkingConfig"]["EndpointsConfig"][mode]["Aliases"];
            if let Err(refusal) = self.permit_names(&network)
                && (!is_empty(&body["Hostname"])
                    || !is_empty(aliases)
                    || self.is_new_name(name, &network).await?)
            {
                return Err(refusal);
            }
        }
        let mut missing = Vec::new();
        for (volume, writable) in uses.volumes {
            let name = ObjectName::new(volume)?;
            match self.try_volume(&name).await? {
                Some(found) => {
                    self.permit_host_volume(&found)?;
                    if is_anonymous(volume) {
                        // The removal of its container may remove it, too.
                        self.policy
                            .permit_change(volume, is_created(&found.labels))?;
                    }
                    if writable {
                        self.policy.permit_write(volume, &found.labels)?;
                    }
                }
                None => missing.push(name),
            }
        }
        Ok(missing)
    }

    /// Refuses names of a container in a network of others. The engine's own networks have none.
    pub(crate) fn permit_names(&self, network: &Network) -> Result<(), ToolError> {
        match &*network.name {
            "bridge" | "host" | "none" | "podman" => Ok(()),
            _ => self.policy.permit_names(is_created(&network.labels)),
        }
    }

    /// Refuses another name of a container that is in a network of others.
    pub(crate) async fn permit_rename(
        &self,
        container: &ContainerDetails,
    ) -> Result<(), ToolError> {
        if !self.policy.only_created {
            return Ok(());
        }
        for name in container.network_settings.networks.keys() {
            let path = Path::to("/networks").id(&ObjectName::new(name)?);
            let network: Option<Network> = self.existing(path).await?;
            network.map_or(Ok(()), |network| self.permit_names(&network))?;
        }
        Ok(())
    }

    /// Whether the name of a new container is new in the network: a container of this server that it replaces may have
    /// it there.
    async fn is_new_name(&self, name: &str, network: &Network) -> Result<bool, ToolError> {
        let Ok(name) = ContainerName::new(name) else {
            return Ok(false);
        };
        let replaced = self.container_now(&name).await?;
        Ok(!replaced.is_some_and(|replaced| {
            is_created(&replaced.config.labels) && replaced.is_in_network(&network.name)
        }))
    }

    /// Refuses a volume whose options make it a directory of the host, unless that may be mounted itself.
    fn permit_host_volume(&self, volume: &Volume) -> Result<(), ToolError> {
        volume.host_path().map_or(Ok(()), |path| {
            let sees_host = self.engine.is_beside_us();
            self.policy
                .permit_host_volume(&volume.name, path, sees_host)
        })
    }

    /// The network that a mode names; `None` if it names none, or the engine's own.
    /// Errors when the policy hides it, and for the host's under any name.
    pub(crate) async fn permit_network(&self, mode: &str) -> Result<Option<Network>, ToolError> {
        if mode.contains(':') || matches!(mode, "" | "none") {
            return Ok(None);
        }
        if matches!(mode, "default" | "bridge") {
            // The names of the engine's own network, of Docker and of Podman.
            let (none, mut names) = (BTreeMap::new(), ["bridge", "podman"].into_iter());
            names.try_for_each(|name| self.policy.permit_use(name, &none))?;
            return Ok(None);
        }
        let name = ObjectName::new(mode)?;
        if PODMAN_MODES.contains(&mode) && !self.has_network(&name).await? {
            return Ok(None);
        }
        let network = self.network(&name).await?;
        let is_host = network.driver == "host" || network.name == "host";
        if is_host {
            self.policy.permit_create(&Reach::Namespace("host"))?;
        }
        Ok(Some(network))
    }

    /// Creates a volume that is marked as this server's.
    pub(crate) async fn create_volume(
        &self,
        name: &ObjectName,
        labels: BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        let mut labels = labels;
        labels.insert(CREATED.to_owned(), MARK.to_owned());
        // No driver options: they could mount any path of the host.
        let request = json!({"Name": name, "Driver": "local", "Labels": labels});
        let action = Action::new("create", ObjectKind::Volume, name.as_str());
        let path = Path::to("/volumes/create");
        self.post(action, path, Some(&request), 0).await.map(drop)
    }

    /// The paths of the host that a container mounts, once they may be mounted now: links are resolved by the
    /// engine at each start, so one may have been put there since it was created. None if they are not visible.
    /// Errors when one must not be mounted.
    pub(crate) async fn permit_start(&self, id: &ContainerName) -> Result<Vec<String>, ToolError> {
        let engine = &self.engine;
        if !engine.is_beside_us() {
            return Ok(Vec::new());
        }
        let details: Value = engine.get(Path::container(id, "/json")).await?;
        let host = &details["HostConfig"];
        let mounts = items(&host["Mounts"]);
        let mounts: Vec<_> = mounts.filter(|mount| mount["Type"] == "bind").collect();
        let body = json!({"HostConfig": {"Binds": host["Binds"], "Mounts": mounts}});
        let uses = Uses::new(&body, true);
        let binds = uses.reaches.iter().filter_map(|reach| match reach {
            Reach::Bind(path, _) => Some((*path).to_owned()),
            _ => None,
        });
        let mut binds: Vec<String> = binds.collect();
        for mount in items(&details["Mounts"]).filter(|mount| mount["Type"] == "volume") {
            binds.extend(engine.host_path_of_volume(text(&mount["Name"])).await?);
        }
        let is_own = details["Config"]["Labels"][CREATED] == MARK;
        for path in &binds {
            self.policy.permit_start(path, is_own)?;
        }
        Ok(binds)
    }
}

impl<'a> Uses<'a> {
    /// Reads the request of a new container, of which the engine takes no list as a single text.
    fn new(body: &'a Value, sees_host: bool) -> Self {
        let mut uses = Self {
            sees_host,
            ..Self::default()
        };
        let host = &body["HostConfig"];
        let mode = host["NetworkMode"].as_str().unwrap_or("default");
        let endpoints = members(&body["NetworkingConfig"]["EndpointsConfig"]);
        uses.networks.push(mode);
        uses.networks
            .extend(endpoints.map(|(name, _)| name.as_str()));
        let privileged = !is_empty(&host["Privileged"]);
        uses.reaches.extend(privileged.then_some(Reach::Privileged));
        let modes = NAMESPACES.iter().filter_map(|mode| host[mode].as_str());
        let modes = uses.networks.iter().copied().chain(modes);
        uses.reaches.extend(modes.map(Reach::Namespace));
        uses.reaches
            .extend(texts(&host["CapAdd"]).map(Reach::Capability));
        texts(&host["Binds"]).for_each(|bind| uses.bind(bind));
        items(&host["Mounts"]).for_each(|mount| uses.mount(mount));
        for list in ["CapAdd", "Binds", "Mounts", "SecurityOpt"] {
            if !host[list].is_array() && !host[list].is_null() {
                uses.other(list);
            }
        }
        uses.options(host);
        uses
    }

    /// `source:/path[:options]`.
    fn bind(&mut self, bind: &'a str) {
        let mut parts = bind.split(':');
        match (parts.next().unwrap_or_default(), parts.next()) {
            (source, Some(_)) if source.starts_with('/') => {
                self.reaches.push(Reach::Bind(source, self.sees_host))
            }
            (source, Some(_)) => {
                let mut options = parts.next().unwrap_or_default().split(',');
                self.volumes
                    .push((source, !options.any(|option| option == "ro")));
            }
            // A path alone is an anonymous volume.
            (_, None) => {}
        }
    }

    fn mount(&mut self, mount: &'a Value) {
        let source = text(&mount["Source"]);
        let writable = mount["ReadOnly"] != true;
        match mount["Type"].as_str() {
            Some("bind") => self.reaches.push(Reach::Bind(source, self.sees_host)),
            Some("tmpfs") => {}
            Some("volume") if is_empty(&mount["VolumeOptions"]["DriverConfig"]) => {
                if !source.is_empty() {
                    self.volumes.push((source, writable));
                }
            }
            Some("volume") => self.other("a driver for the volume of a mount"),
            kind => self.other(&format!("a mount of the type {}", kind.unwrap_or("?"))),
        }
    }

    fn other(&mut self, name: &str) {
        self.reaches.push(Reach::Other(name.to_owned()));
    }

    /// An option that is set and not known to be harmless counts as one that reaches the host.
    fn options(&mut self, host: &Value) {
        let known = |name: &str| {
            let mut known = CONTAINED.split(' ').chain(CHECKED.split(' '));
            known.any(|known| known == name)
        };
        for (name, value) in members(host) {
            // An empty list of masked paths unmasks all of them.
            let is_unset = is_empty(value) && !matches!(&**name, "MaskedPaths" | "ReadonlyPaths");
            if !is_unset && !value.is_null() && !known(name) {
                self.other(name);
            }
        }
        let security = texts(&host["SecurityOpt"]);
        let security = security.filter(|option| !option.starts_with("no-new-privileges"));
        security.for_each(|option| self.other(option));
        let log = &host["LogConfig"];
        for (option, _) in members(&log["Config"]) {
            if !LOG_OPTIONS.split(' ').any(|known| known == option) {
                self.other(&format!("the log option {option}"));
            }
        }
        for (option, given, harmless) in [
            ("log driver", &log["Type"], LOCAL_LOG_DRIVERS),
            ("runtime", &host["Runtime"], "runc crun"),
            ("volume driver", &host["VolumeDriver"], "local"),
        ] {
            let given = text(given);
            if !given.is_empty() && !harmless.split(' ').any(|known| known == given) {
                self.other(&format!("the {option} {given}"));
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

/// The ranges of private networks.
const PRIVATE: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];

impl Docker {
    /// Errors when a new network must not have this subnet: it is no private range, or the host of the engine
    /// routes it elsewhere, which is known if the engine is on this machine. The engine itself refuses the
    /// ranges of its other networks.
    pub(crate) fn permit_subnet(&self, text: &str) -> Result<(), ToolError> {
        let Ok(subnet) = text.parse::<IpNet>() else {
            let text = "A subnet is an address and a length: `172.30.0.0/16`.";
            return Err(ToolError::invalid_argument(text));
        };
        if self.policy.is_privileged() {
            return Ok(());
        }
        let mut private = PRIVATE
            .iter()
            .filter_map(|range| range.parse::<IpNet>().ok());
        if !private.any(|range| range.contains(&subnet)) {
            return Err(ToolError::forbidden(format!(
                "This server does not create networks with the subnet {text}: the host of the engine \
                 would not reach these addresses any more. Use a part of 10.0.0.0/8, 172.16.0.0/12, \
                 192.168.0.0/16 or fc00::/7, or leave the subnet out."
            )));
        }
        let routes = match self.engine.is_beside_us() {
            true => host_routes(),
            false => Vec::new(),
        };
        if routes
            .into_iter()
            .any(|route| route.contains(&subnet) || subnet.contains(&route))
        {
            return Err(ToolError::forbidden(format!(
                "This server does not create networks with the subnet {text}: it holds addresses that \
                 the host of the engine uses or has a route to. Use another one, or leave it out."
            )));
        }
        Ok(())
    }
}

/// The addresses of this machine, and its routes but the default one, which some VPNs write as two halves; none where
/// the system does not tell them.
fn host_routes() -> Vec<IpNet> {
    let read = |name| std::fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    let (v4, v6, own) = (read("route"), read("ipv6_route"), read("fib_trie"));
    let v4 = v4.lines().skip(1).filter_map(route).map(IpNet::from);
    let v6 = v6.lines().filter_map(route_v6).map(IpNet::from);
    v4.chain(v6)
        .filter(|route| route.prefix_len() > 1)
        .chain(own_addresses(&own).map(IpNet::from))
        .collect()
}

/// A line of `/proc/net/route`: its address and mask are numbers in the order of the machine's bytes.
fn route(line: &str) -> Option<Ipv4Net> {
    let words: Vec<_> = line.split_whitespace().collect();
    let number = |at: usize| {
        let number = u32::from_str_radix(words.get(at)?, 16).ok()?;
        Some(Ipv4Addr::from(number.to_ne_bytes()))
    };
    Ipv4Net::with_netmask(number(1)?, number(7)?).ok()
}

/// The addresses of the machine in `/proc/net/fib_trie`, each before a line that calls it local: to one with the length
/// 32, as clouds give them, there is no route.
fn own_addresses(table: &str) -> impl Iterator<Item = IpAddr> {
    let lines = table.lines().zip(table.lines().skip(1));
    let local = lines.filter(|(_, kind)| kind.contains("host LOCAL"));
    local.filter_map(|(line, _)| line.rsplit(' ').next()?.parse().ok())
}

/// A line of `/proc/net/ipv6_route`.
fn route_v6(line: &str) -> Option<Ipv6Net> {
    let mut words = line.split_whitespace();
    let address = u128::from_str_radix(words.next()?, 16).ok()?;
    let length = u8::from_str_radix(words.next()?, 16).ok()?;
    Ipv6Net::new(Ipv6Addr::from(address), length).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The options of a request that no exception covers one by one.
    fn others(host: Value) -> usize {
        let body = json!({"HostConfig": host});
        let reaches = Uses::new(&body, false).reaches.into_iter();
        reaches
            .filter(|reach| matches!(reach, Reach::Other(_)))
            .count()
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
            json!({"CapAdd": "SYS_ADMIN"}),
            json!({"Unknown": 1}),
        ] {
            assert_eq!(others(host.clone()), 1, "{host}");
        }
        let harmless = json!({"Init": true, "CapDrop": ["ALL"], "Ulimits": [], "Devices": [],
            "SecurityOpt": ["no-new-privileges:true"], "Tmpfs": {"/tmp": "size=1m"}, "Runtime": "runc", "Links": null,
            "LogConfig": {"Type": "local", "Config": {"max-size": "10m"}}});
        assert_eq!(others(harmless), 0);
    }

    #[test]
    fn addresses_without_a_route_count() {
        let table = "Local:\n  +-- 0.0.0.0/1 2 0 2\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     \
            |-- 10.7.0.5\n        /32 host LOCAL\n     |-- 10.7.0.255\n        /32 link BROADCAST\n";
        let own: Vec<_> = own_addresses(table).collect();
        assert_eq!(own, ["10.7.0.5".parse::<IpAddr>().unwrap()]);
        let loopback = "127.0.0.1/32".parse().unwrap();
        assert!(!cfg!(target_os = "linux") || host_routes().contains(&loopback));
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn routes_of_the_kernel_are_read() {
        for (line, expected) in [
            (
                "eth0\t00004D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0",
                "10.77.0.0/24",
            ),
            (
                "eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0",
                "0.0.0.0/0",
            ),
        ] {
            assert_eq!(route(line), expected.parse().ok());
        }
        let line =
            "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 0 0 0 0 eth0";
        assert_eq!(route_v6(line), "fd00::/64".parse().ok());
        for line in ["", "eth0", "eth0 x y"] {
            assert_eq!((route(line), route_v6(line)), (None, None));
        }
    }
}
