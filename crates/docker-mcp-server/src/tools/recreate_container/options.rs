//! The options of a container that is made once more: those of its user, without what came from its image or from the
//! engine; the request with the changes; and what differs between the two containers and was not asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use mcp_core::tool::ToolError;
use serde_json::{Map, Value, json};

use super::super::create_container::{CreateContainer, swap_limit};
use crate::engine::{ObjectName, is_anonymous};
use crate::json::{into_members, items, text, texts};
use crate::policy::{CREATED, REPLACES, permit_marks};

/// Members of `Config` that an image has, too.
const FROM_IMAGE: &str = "Entrypoint Cmd WorkingDir User StopSignal Healthcheck Shell OnBuild";
/// Members that the engine has set.
const OF_ENGINE: &str = "OnBuild ArgsEscaped";
/// Members of the `HostConfig` that are a file of the client, or of Windows.
const OF_CLIENT: [&str; 2] = ["ContainerIDFile", "Isolation"];
/// Members of an endpoint that the user has set; a MAC address may be the engine's.
const OF_ENDPOINT: [&str; 6] = [
    "IPAMConfig",
    "Links",
    "Aliases",
    "DriverOpts",
    "GwPriority",
    "MacAddress",
];

/// Characters of the shortest form of an id that the engine uses as a name.
const SHORT_ID: usize = 12;

/// The `Config` of the container without what its image and the engine have set.
fn own_config(old: &Value, defaults: &Value) -> Map<String, Value> {
    let mut config = into_members(old["Config"].clone());
    let id = text(&old["Id"]);
    let has_own_name = |config: &Map<String, Value>| {
        let name = config.get("Hostname").and_then(Value::as_str);
        name.is_some_and(|name| !name.is_empty() && !is_id(name, id))
    };
    if !has_own_name(&config) {
        config.remove("Hostname");
    }
    if has_name_of_another(old) {
        config.remove("Hostname");
        config.remove("Domainname");
    }
    // With an entrypoint of the user, the command is the user's, too.
    let own_entrypoint = given(config.get("Entrypoint")) != given(defaults.get("Entrypoint"));
    for name in FROM_IMAGE.split(' ') {
        let is_default = given(config.get(name)) == given(defaults.get(name));
        if is_default && !(name == "Cmd" && own_entrypoint) {
            config.remove(name);
        }
    }
    if own_entrypoint && given(config.get("Entrypoint")).is_none() {
        // The form in which the engine takes "none".
        config.insert("Entrypoint".to_owned(), json!([""]));
    }
    for (name, value) in &mut config {
        match (value, &defaults[name]) {
            (Value::Array(own), Value::Array(default)) if name == "Env" => {
                own.retain(|line| !default.contains(line));
            }
            (Value::Object(own), Value::Object(default)) if name != "Healthcheck" => {
                own.retain(|key, value| default.get(key) != Some(value));
            }
            _ => {}
        }
    }
    config.retain(|name, _| !OF_ENGINE.split(' ').any(|other| other == name));
    config
}

/// Whether the name of the container is that of the host, or of the container whose network it uses.
fn has_name_of_another(container: &Value) -> bool {
    let mode = container["HostConfig"]["NetworkMode"].as_str();
    mode.is_some_and(|mode| mode == "host" || mode.starts_with("container:"))
}

/// A member that is set: the engine writes null or an empty list for one that is not.
fn given(member: Option<&Value>) -> Option<&Value> {
    member.filter(|value| !value.is_null() && **value != json!([]))
}

/// The `HostConfig` without anonymous volumes and the engine's own defaults, which count as access to the host.
fn own_host_config(old: &Value) -> Map<String, Value> {
    let mut host = into_members(old["HostConfig"].clone());
    for name in ["MaskedPaths", "ReadonlyPaths"] {
        // An empty list is the user's: nothing is masked.
        if host.get(name) != Some(&json!([])) {
            host.remove(name);
        }
    }
    if host.get("CgroupnsMode") == Some(&json!("host")) {
        host.remove("CgroupnsMode");
    }
    // Podman's name of its default, which it does not accept back.
    if host.get("Runtime") == Some(&json!("oci")) {
        host.remove("Runtime");
    }
    for name in OF_CLIENT {
        host.remove(name);
    }
    remove_anonymous_volumes(&mut host);
    host
}

/// The name of the network that it is created in, and what the user has set in each network with a name of its own.
fn endpoints(old: &Value) -> (String, Vec<(String, Value)>) {
    let mode = text(&old["HostConfig"]["NetworkMode"]);
    let networks = into_members(old["NetworkSettings"]["Networks"].clone());
    let mut networks: Vec<_> = networks.into_iter().collect();
    let is_main =
        |(name, endpoint): &&(String, Value)| name == mode || endpoint["NetworkID"] == mode;
    let main = networks.iter().find(is_main).map(|(name, _)| name.clone());
    let main = main.unwrap_or_else(|| mode.to_owned());
    // The engine's own networks take no settings, and are there by themselves if they are the main one.
    networks.retain(|(name, _)| match &**name {
        "bridge" | "podman" => !matches!(&*main, "" | "default" | "bridge" | "podman"),
        name => !matches!(name, "host" | "none"),
    });
    let own = |(name, endpoint): (String, Value)| {
        let own = own_endpoint(&endpoint, old);
        (name, own.into())
    };
    (main, networks.into_iter().map(own).collect())
}

/// The settings of the endpoint of a container that come from the user.
fn own_endpoint(endpoint: &Value, container: &Value) -> Map<String, Value> {
    let id = text(&container["Id"]);
    let mut own = into_members(endpoint.clone());
    own.retain(|member, _| OF_ENDPOINT.contains(&member.as_str()));
    if let Some(Value::Array(aliases)) = own.get_mut("Aliases") {
        aliases.retain(|alias| !alias.as_str().is_some_and(|alias| is_id(alias, id)));
    }
    if !has_own_mac(endpoint, container) {
        own.remove("MacAddress");
    }
    own
}

/// Whether the engine made this name of the id: `db` is the begin of many ids, and a name of its own.
fn is_id(name: &str, id: &str) -> bool {
    name.len() >= SHORT_ID && id.starts_with(name)
}

/// Whether the MAC address of an endpoint is the user's. The engine tells that of the main network only; elsewhere it
/// is compared with the address that engines before version 28 (which have no `GwPriority`) make of the IP address.
fn has_own_mac(endpoint: &Value, container: &Value) -> bool {
    let mac = text(&endpoint["MacAddress"]);
    let is_random = endpoint.get("GwPriority").is_some()
        // Podman.
        || container["HostConfig"]["Runtime"] == "oci";
    let Ok(address) = text(&endpoint["IPAddress"]).parse::<Ipv4Addr>() else {
        return false;
    };
    let [a, b, c, d] = address.octets();
    let generated = format!("02:42:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
    !mac.is_empty() && !is_random && mac != generated
}

/// A remark if the container has addresses in further networks of which the engine does not tell whether they are the
/// user's: the new one gets others.
pub(super) fn mac_note(old: &Value, networks: &[(ObjectName, Value)]) -> Option<String> {
    let endpoints = &old["NetworkSettings"]["Networks"];
    let is_untold = |name: &ObjectName| {
        let endpoint = &endpoints[name.as_str()];
        let has_mac = !text(&endpoint["MacAddress"]).is_empty();
        has_mac && endpoint.get("GwPriority").is_some()
    };
    let names = networks.iter().map(|(name, _)| name);
    let names: Vec<&str> = names
        .filter(|name| is_untold(name))
        .map(ObjectName::as_str)
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "It has new MAC addresses in these networks: {}. The engine does not tell whether the old ones were set; \
             if they were, set them again with the docker command.",
            names.join(", ")
        )
    })
}

/// Removes the anonymous volumes, also those that a replacement before this one has mounted by name.
fn remove_anonymous_volumes(host: &mut Map<String, Value>) {
    for name in ["Binds", "Mounts"] {
        let Some(Value::Array(mounts)) = host.get_mut(name) else {
            continue;
        };
        mounts.retain(|mount| match mount.as_str() {
            Some(bind) => {
                let source = bind.split_once(':').map(|(source, _)| source);
                source.is_some_and(|source| !is_anonymous(source))
            }
            None => {
                let source = text(&mount["Source"]);
                mount["Type"] != "volume" || !(source.is_empty() || is_anonymous(source))
            }
        });
    }
}

/// The anonymous volumes of the old container, as binds at the same paths, without those whose path has
/// another mount now.
fn kept_volumes(old: &Value, host: &Map<String, Value>) -> Vec<String> {
    let mounts = ["Binds", "Mounts"].map(|name| host.get(name).and_then(Value::as_array));
    let taken = mounts.into_iter().flatten().flatten();
    let taken = taken.filter_map(|mount| match mount.as_str() {
        Some(bind) => bind.split(':').nth(1),
        None => mount["Target"].as_str(),
    });
    let taken: Vec<&str> = taken.collect();
    let mut kept = Vec::new();
    for mount in items(&old["Mounts"]) {
        let (name, path) = (text(&mount["Name"]), text(&mount["Destination"]));
        if mount["Type"] == "volume" && is_anonymous(name) && !taken.contains(&path) {
            let mode = if mount["RW"] == false { ":ro" } else { "" };
            kept.push(format!("{name}:{path}{mode}"));
        }
    }
    kept
}

pub(super) struct Request {
    pub(super) body: Value,
    /// The anonymous volumes of the old container, as binds: they hold its data. No rule names them.
    pub(super) kept_volumes: Vec<String>,
    /// Further networks: engines before version 25 take one with the request.
    pub(super) networks: Vec<(ObjectName, Value)>,
    /// For engines before version 25, which take it beside the networks.
    pub(super) mac_address: Option<Value>,
    /// The members that may differ between the old and the new container.
    pub(super) asked: Asked,
}

/// Merges the changes into the options of the container that the engine describes as `old`;
/// `defaults` is the `Config` of its image.
/// Errors when a change is not an option of a new container.
pub(super) fn merge(
    old: &Value,
    defaults: &Value,
    mut changes: Map<String, Value>,
) -> Result<Request, ToolError> {
    let (mut body, mut host) = (own_config(old, defaults), own_host_config(old));
    let (main_network, mut networks) = endpoints(old);
    for name in ["name", "only_create", "auto_remove"] {
        if changes.contains_key(name) {
            let text = format!("changes: `{name}` cannot be changed.");
            return Err(ToolError::invalid_argument(text));
        }
    }
    if let Some(Value::Object(labels)) = changes.get("labels") {
        permit_marks("", labels.keys())?;
    }
    let mut asked = Asked::new(&changes);
    let env = body.remove("Env").unwrap_or_default();
    let removals = texts(&env).filter(|line| !line.contains('='));
    let removals: Vec<Value> = removals.map(Value::from).collect();
    let env = texts(&env).filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        Some((name.to_owned(), value.into()))
    });
    let labels = into_members(body.remove("Labels").unwrap_or_default());
    for (name, mut all) in [("env", env.collect()), ("labels", labels)] {
        let given = changes.entry(name).or_insert(json!({}));
        // Any other value is not valid, which the next step says.
        if let Value::Object(given) = given {
            all.append(given);
            all.retain(|_, value| !value.is_null());
            *given = all;
        }
    }
    let image = body.get("Image").cloned().unwrap_or_default();
    changes.entry("image").or_insert(image);
    let invalid = |error| ToolError::invalid_argument(format!("changes: {error}."));
    let changes: CreateContainer = serde_json::from_value(changes.into()).map_err(invalid)?;
    let mut new = into_members(changes.body()?);
    let mut new_host = into_members(new.remove("HostConfig").unwrap_or_default());
    asked.add(&new, &new_host);
    // What belonged to an option that is replaced goes with it, and the rest stays.
    let replaced = |name: &str| new_host.contains_key(name);
    if let Some(memory) = new_host.get("Memory").and_then(Value::as_i64) {
        let mut old = |name| host.remove(name).and_then(|limit| limit.as_i64());
        let (old, swap) = (old("Memory"), old("MemorySwap"));
        let swap = swap_limit(memory, old.unwrap_or(0), swap.unwrap_or(0));
        host.extend(swap.map(|swap| ("MemorySwap".to_owned(), swap.into())));
    }
    if replaced("Binds") {
        host.remove("Mounts");
    }
    let mac_address = body
        .remove("MacAddress")
        .filter(|_| !replaced("NetworkMode"));
    if replaced("NetworkMode") {
        networks.clear();
    } else {
        let at = networks.iter().position(|(name, _)| *name == main_network);
        let main = at.map(|at| networks.remove(at));
        let mode = host.get("NetworkMode").cloned().unwrap_or_default();
        let mode = || (text(&mode).to_owned(), json!({}));
        let main = main.or_else(|| mac_address.is_some().then(mode));
        if let Some((name, mut endpoint)) = main {
            if let Some(address) = &mac_address {
                endpoint["MacAddress"] = address.clone();
            }
            let endpoints = json!({"EndpointsConfig": {name: endpoint}});
            body.insert("NetworkingConfig".to_owned(), endpoints);
        }
    }
    if replaced("PortBindings") {
        let published = into_members(host.remove("PortBindings").unwrap_or_default());
        let mut exposed = into_members(body.remove("ExposedPorts").unwrap_or_default());
        exposed.retain(|port, _| !published.contains_key(port));
        exposed.extend(into_members(
            new.get("ExposedPorts").cloned().unwrap_or_default(),
        ));
        body.insert("ExposedPorts".to_owned(), exposed.into());
    }
    keep_other_options(&host, &mut new_host);
    host.extend(new_host);
    let kept_volumes = kept_volumes(old, &host);
    body.insert("HostConfig".to_owned(), host.into());
    body.extend(new.into_iter().filter(|(name, _)| name != "ExposedPorts"));
    if !removals.is_empty() {
        let mut env = removals;
        let own = body.get("Env").and_then(Value::as_array);
        env.extend(own.into_iter().flatten().cloned());
        body.insert("Env".to_owned(), env.into());
    }
    let networks = networks.into_iter();
    let networks =
        networks.filter_map(|(name, endpoint)| Some((ObjectName::new(&name).ok()?, endpoint)));
    Ok(Request {
        body: body.into(),
        kept_volumes,
        networks: networks.collect(),
        mac_address,
        asked,
    })
}

/// Keeps the options that share a member with an option which was asked for: those of the same log driver, and those
/// of security beside `no-new-privileges`.
fn keep_other_options(host: &Map<String, Value>, new_host: &mut Map<String, Value>) {
    let (old, new) = (host.get("LogConfig"), new_host.get_mut("LogConfig"));
    if let (Some(old), Some(new)) = (old, new)
        && old["Type"] == new["Type"]
    {
        let mut options = into_members(old["Config"].clone());
        options.extend(into_members(new["Config"].take()));
        new["Config"] = options.into();
    }
    if let Some(Value::Array(new)) = new_host.get_mut("SecurityOpt") {
        let old = host.get("SecurityOpt").and_then(Value::as_array);
        let is_other = |option: &&Value| {
            let option = text(option);
            !option.starts_with("no-new-privileges")
        };
        new.extend(old.into_iter().flatten().filter(is_other).cloned());
    }
}

/// Members of the `Config` that are compared entry by entry: an image has some of them.
const BY_ENTRY: [&str; 4] = ["Env", "Labels", "ExposedPorts", "Volumes"];
const NETWORKS: &str = "NetworkSettings.Networks";
const BINDINGS: &str = "HostConfig.PortBindings";

/// The members, and what is in them, that a call asked to change: `Config.Env.A`, `HostConfig.Memory`.
#[derive(Default)]
pub(super) struct Asked(BTreeSet<String>);

impl Asked {
    /// The arguments of a call.
    pub(super) fn new(changes: &Map<String, Value>) -> Self {
        let mut asked = BTreeSet::new();
        for (argument, member) in [("env", "Env"), ("labels", "Labels")] {
            let given = changes.get(argument).and_then(Value::as_object);
            let keys = given.into_iter().flatten();
            asked.extend(keys.map(|(key, _)| format!("Config.{member}.{key}")));
        }
        if changes.contains_key("image") {
            asked.insert("Config.Image".to_owned());
        }
        Self(asked)
    }

    /// Adds the members of the request that the arguments set.
    pub(super) fn add(&mut self, config: &Map<String, Value>, host: &Map<String, Value>) {
        let set = config.iter().filter(|(_, value)| !value.is_null());
        let names = set.map(|(name, _)| name.as_str());
        let names = names.filter(|name| *name != "Image" && !BY_ENTRY.contains(name));
        self.0.extend(names.map(|name| format!("Config.{name}")));
        self.0
            .extend(host.keys().map(|name| format!("HostConfig.{name}")));
        for (option, others) in [
            ("Config.Entrypoint", &["Config.Cmd"][..]),
            ("HostConfig.Memory", &["HostConfig.MemorySwap"]),
            ("HostConfig.Binds", &["HostConfig.Mounts", "Mounts"]),
            // The address was one of the network before.
            ("HostConfig.NetworkMode", &["Config.MacAddress", NETWORKS]),
        ] {
            if self.0.contains(option) {
                self.0
                    .extend(others.iter().map(|other| (*other).to_owned()));
            }
        }
    }

    fn has(&self, path: &str) -> bool {
        let mut wholes = [NETWORKS, "Mounts"].into_iter();
        self.0.contains(path)
            || wholes.any(|whole| self.0.contains(whole) && path.starts_with(whole))
    }
}

/// A container as the engine describes it, with the `Config` of its image.
#[derive(Default)]
pub(super) struct Described {
    pub(super) container: Value,
    pub(super) defaults: Value,
}

/// The settings of a container by their paths.
type Settings = BTreeMap<String, Value>;

/// The members in which `new` differs from `old`, apart from what was asked for, what a new image brings, and what the
/// engine makes new for each container.
pub(super) fn differences(old: &Described, new: &Described, asked: &Asked) -> Vec<String> {
    let runs = [old, new].map(|at| at.container["State"]["Running"] == true);
    let both_run = runs == [true, true];
    let [before, after] = [old, new].map(|at| settings(at, both_run));
    let [own_before, own_after] = [old, new].map(|at| {
        let mut own = Settings::new();
        add_config(&mut own, own_config(&at.container, &at.defaults), at);
        own
    });
    let has_other_image = old.container["Image"] != new.container["Image"];
    let is_of_image = |path: &str| {
        let is_config = path.starts_with("Config.") && own_before.get(path) == own_after.get(path);
        let is_volume = path
            .strip_prefix("Mounts.")
            .is_some_and(|path| !new.defaults["Volumes"][path].is_null())
            && !before.contains_key(path);
        has_other_image && (is_config || is_volume)
    };
    let is_published = |path: &str| {
        let port = path.strip_prefix("Config.ExposedPorts.");
        let mut all = [old, new].into_iter();
        port.is_some_and(|port| {
            asked.has(BINDINGS)
                && all.any(|at| !at.container["HostConfig"]["PortBindings"][port].is_null())
        })
    };
    // The data of a volume without a name would be lost with it.
    let is_lost = |path: &str| {
        let name = before.get(path).and_then(|mount| mount[1].as_str());
        path.starts_with("Mounts.") && name.is_some_and(is_anonymous) && !after.contains_key(path)
    };
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differing = paths.into_iter().filter(|path| {
        before.get(*path) != after.get(*path)
            && (is_lost(path) || !(asked.has(path) || is_published(path) || is_of_image(path)))
    });
    differing.cloned().collect()
}

/// All settings that are set.
fn settings(at: &Described, both_run: bool) -> Settings {
    let container = &at.container;
    let part =
        |pointer: &str| into_members(container.pointer(pointer).cloned().unwrap_or_default());
    let mut all = Settings::new();
    add_config(&mut all, part("/Config"), at);
    let mut host = part("/HostConfig");
    remove_anonymous_volumes(&mut host);
    for name in OF_CLIENT {
        host.remove(name);
    }
    if let Some(Value::Array(links)) = host.get_mut("Links") {
        // In no order.
        links.sort_by_key(Value::to_string);
    }
    add(&mut all, "HostConfig", host);
    for mount in items(&container["Mounts"]) {
        let path = text(&mount["Destination"]);
        let what = ["Type", "Name", "Source", "RW", "Propagation"];
        let what = what.map(|name| mount.get(name).filter(|value| is_given(value)));
        all.insert(format!("Mounts.{path}"), json!(what));
    }
    for (network, endpoint) in part("/NetworkSettings/Networks") {
        let mut own = own_endpoint(&endpoint, container);
        if let Some(Value::Array(aliases)) = own.get_mut("Aliases") {
            aliases.sort_by_key(Value::to_string);
            aliases.dedup();
        }
        if !both_run {
            // It has one only when it runs.
            own.remove("MacAddress");
        }
        own.retain(|_, value| is_given(value));
        all.insert(format!("{NETWORKS}.{network}"), own.into());
    }
    all
}

/// Adds the `Config` of a container, without the marks of this server and a name that the engine made.
fn add_config(all: &mut Settings, mut config: Map<String, Value>, at: &Described) {
    let id = text(&at.container["Id"]);
    let name = config.get("Hostname").and_then(Value::as_str);
    if name.is_some_and(|name| is_id(name, id)) || has_name_of_another(&at.container) {
        config.remove("Hostname");
    }
    for member in BY_ENTRY {
        let mut entries = entries(config.remove(member));
        for mark in [CREATED, REPLACES] {
            entries.remove(mark);
        }
        let entries = entries.into_iter();
        all.extend(entries.map(|(key, value)| (format!("Config.{member}.{key}"), value)));
    }
    add(all, "Config", config);
}

fn add(all: &mut Settings, path: &str, members: Map<String, Value>) {
    let members = members.into_iter().filter(|(_, value)| is_given(value));
    all.extend(members.map(|(name, value)| (format!("{path}.{name}"), value)));
}

/// Engines write null, an empty value or nothing for a member that is not set.
fn is_given(member: &Value) -> bool {
    ![json!(null), json!([]), json!({}), json!("")].contains(member)
}

/// The entries of an object, or the variables of a list of `NAME=value`.
fn entries(member: Option<Value>) -> BTreeMap<String, Value> {
    match member {
        Some(Value::Object(entries)) => entries.into_iter().collect(),
        Some(Value::Array(lines)) => {
            let lines = lines.iter().filter_map(Value::as_str);
            let entry = |line: &str| match line.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.into()),
                None => (line.to_owned(), Value::Null),
            };
            lines.map(entry).collect()
        }
        _ => BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_keeps_what_its_user_has_set() {
        let id = "db12".repeat(16);
        let old = |runtime: &str| json!({"Id": id, "HostConfig": {"Runtime": runtime}});
        let endpoint = |mac: &str| {
            json!({"Aliases": ["db", "d", &id[..12]], "IPAddress": "172.18.0.3", "MacAddress": mac,
            "NetworkID": "x"})
        };
        let aliases = json!(["db", "d"]);
        for (mac, runtime, is_kept) in [
            ("02:42:ac:12:00:03", "runc", false),
            ("02:42:ac:11:65:43", "runc", true),
            ("02:42:ac:11:65:43", "oci", false),
            ("", "runc", false),
        ] {
            let own = own_endpoint(&endpoint(mac), &old(runtime));
            assert_eq!(own["Aliases"], aliases);
            assert_eq!(own.contains_key("MacAddress"), is_kept, "{mac} {runtime}");
            assert_eq!(own.len(), 1 + usize::from(is_kept));
        }
        // Newer engines choose any address.
        let mut newer = endpoint("02:42:ac:11:65:43");
        newer["GwPriority"] = json!(0);
        assert!(!own_endpoint(&newer, &old("runc")).contains_key("MacAddress"));
        let further = [(ObjectName::new("back").unwrap(), json!({}))];
        for (endpoint, is_told) in [(newer, true), (endpoint("02:42:ac:11:65:43"), false)] {
            let old =
                json!({"NetworkSettings": {"Networks": {"back": endpoint, "main": endpoint}}});
            let note = mac_note(&old, &further);
            assert_eq!(note.is_some_and(|note| note.contains(": back.")), is_told);
        }
    }

    #[test]
    fn default_bridge_is_kept_as_a_further_network() {
        for (mode, expected) in [
            ("front", vec!["bridge", "front"]),
            ("default", vec!["front"]),
        ] {
            let old = json!({"Id": "x", "HostConfig": {"NetworkMode": mode},
                "NetworkSettings": {"Networks": {"bridge": {}, "front": {}}}});
            let mut names: Vec<_> = endpoints(&old)
                .1
                .into_iter()
                .map(|(name, _)| name)
                .collect();
            names.sort();
            assert_eq!(names, expected, "{mode}");
        }
    }

    /// Engines write null, an empty list or nothing for an entrypoint that is not set.
    #[test]
    fn entrypoint_that_is_not_set_is_compared_by_its_meaning() {
        let none = json!([""]);
        for (own, of_image, expected) in [
            (json!(null), json!({}), None),
            (json!([]), json!({"Entrypoint": null}), None),
            (json!(null), json!({"Entrypoint": ["/x"]}), Some(&none)),
            (json!(["/x"]), json!({"Entrypoint": ["/x"]}), None),
        ] {
            let old = json!({"Config": {"Entrypoint": own, "Cmd": ["run"]}});
            let image = json!({"Cmd": ["run"], "Entrypoint": of_image["Entrypoint"]});
            let config = own_config(&old, &image);
            assert_eq!(config.get("Entrypoint"), expected, "{own} {of_image}");
            assert_eq!(
                config.contains_key("Cmd"),
                expected.is_some(),
                "{own} {of_image}"
            );
        }
    }

    /// A container with this change at `pointer`.
    fn described(pointer: &str, value: Value) -> Described {
        let mut container = json!({
            "Id": "ab12cd34ef56", "Image": "sha256:1", "State": {"Running": true},
            "Config": {"Hostname": "ab12cd34ef56", "Domainname": "", "Env": ["A=1", "PATH=/bin"], "Cmd": ["run"],
                "Labels": {"a": "1"}, "ExposedPorts": {"80/tcp": {}}, "MacAddress": "02:42:ac:11:65:43"},
            "HostConfig": {"Memory": 5, "MemorySwap": 10, "Binds": null, "PublishAllPorts": false,
                "PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8080"}]}},
            "Mounts": [{"Type": "volume", "Name": "f".repeat(64), "Destination": "/data", "RW": true}],
            "NetworkSettings": {
                "Networks": {"front": {"Aliases": ["web", "ab12cd34ef56"], "IPAMConfig": null, "IPAddress": "10.0.0.2",
                    "MacAddress": "02:42:0a:00:00:02"}}},
        });
        if !pointer.is_empty() {
            *container.pointer_mut(pointer).unwrap() = value;
        }
        let defaults = json!({"Cmd": ["run"], "Env": ["PATH=/bin"]});
        Described {
            container,
            defaults,
        }
    }

    /// A member, its new value, and the difference that is named.
    const ROWS: &str = r#"
 | null |
/Config/ExposedPorts | null | Config.ExposedPorts.80/tcp
/Config/Env | ["A=2", "PATH=/bin"] | Config.Env.A
/Config/Env | ["A=1"] | Config.Env.PATH
/Config/Env | ["PATH=/bin", "A=1"] |
/Config/Labels | {"a": "1", "docker-mcp-server.created": "true"} |
/Config/Labels | {} | Config.Labels.a
/Config/Cmd | ["other"] | Config.Cmd
/Config/Domainname | "x" | Config.Domainname
/Config/MacAddress | null | Config.MacAddress
/Config/Hostname | "web" | Config.Hostname
/HostConfig/Memory | 6 | HostConfig.Memory
/HostConfig/Binds | [] |
/HostConfig/Binds | ["UNNAMED:/data"] |
/HostConfig/Binds | ["x:/x"] | HostConfig.Binds
/Mounts/0/Name | "OTHER" | Mounts./data
/Mounts | [] | Mounts./data
/NetworkSettings/Networks | {} | NetworkSettings.Networks.front
/NetworkSettings/Networks/front/Aliases | ["web"] |
/NetworkSettings/Networks/front/Aliases | [] | NetworkSettings.Networks.front
/NetworkSettings/Networks/front/MacAddress | "02:00:00:00:00:01" | NetworkSettings.Networks.front
/NetworkSettings/Networks/front/IPAMConfig | {"IPv4Address": "10.0.0.2"} | NetworkSettings.Networks.front
"#;

    #[test]
    fn what_differs_is_named() {
        let [unnamed, other] = ["f", "0"].map(|digit| digit.repeat(64));
        for row in ROWS.trim_matches('\n').lines() {
            let row = row.replace("UNNAMED", &unnamed).replace("OTHER", &other);
            let [pointer, value, expected] = row
                .split('|')
                .map(str::trim)
                .collect::<Vec<_>>()
                .try_into()
                .unwrap();
            let value = serde_json::from_str(value).unwrap();
            let (old, new) = (described("", json!(null)), described(pointer, value));
            let found = differences(&old, &new, &Asked::default());
            assert_eq!(found.join(" "), expected, "{row}");
        }
        // Data of a volume without a name is kept also if other mounts were asked for.
        let (old, new) = (described("", json!(null)), described("/Mounts", json!([])));
        let mut asked = Asked::default();
        asked.add(&Map::new(), &into_members(json!({"Binds": []})));
        assert_eq!(differences(&old, &new, &asked), ["Mounts./data"]);
    }
}
