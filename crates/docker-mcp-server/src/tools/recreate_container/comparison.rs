//! The comparison of a container with the one that replaces it: what differs, and was not asked for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::engine::is_anonymous;
use crate::engine::own_options::{
    is_id, members, own_config, own_endpoint, remove_anonymous_volumes,
};
use crate::policy::{CREATED, REPLACES};

/// Members of the `Config` that are compared entry by entry: an image has some of them.
const BY_ENTRY: [&str; 4] = ["Env", "Labels", "ExposedPorts", "Volumes"];
const NETWORKS: &str = "NetworkSettings.Networks";
const PORTS: &str = "NetworkSettings.Ports";
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
            (BINDINGS, &[PORTS]),
        ] {
            if self.0.contains(option) {
                self.0
                    .extend(others.iter().map(|other| (*other).to_owned()));
            }
        }
    }

    fn has(&self, path: &str) -> bool {
        let mut wholes = [NETWORKS, PORTS, "Mounts"].into_iter();
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
    let [before, after] = [old, new].map(|at| settings(at, &old.container, both_run));
    let [own_before, own_after] = [old, new].map(|at| {
        let mut own = Settings::new();
        add_config(&mut own, own_config(&at.container, &at.defaults), at);
        own
    });
    let has_other_image = old.container["Image"] != new.container["Image"];
    let is_of_image = |path: &str| {
        let is_config = path.starts_with("Config.") && own_before.get(path) == own_after.get(path);
        let is_exposed = path.strip_prefix(PORTS).is_some_and(|port| {
            let exposed = |at: &Described| !at.defaults["ExposedPorts"][&port[1..]].is_null();
            publishes_all(&old.container) && (exposed(old) || exposed(new))
        });
        let is_volume = path
            .strip_prefix("Mounts.")
            .is_some_and(|path| !new.defaults["Volumes"][path].is_null())
            && !before.contains_key(path);
        has_other_image && (is_config || is_exposed || is_volume)
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
    without_parts(differing.cloned())
}

/// Of a network that only one has, only its name.
fn without_parts(paths: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for path in paths {
        let is_part = |whole: &String| {
            whole.starts_with(NETWORKS)
                && path
                    .strip_prefix(whole.as_str())
                    .is_some_and(|rest| rest.starts_with('.'))
        };
        if !found.iter().any(is_part) {
            found.push(path);
        }
    }
    found
}

/// All settings that are set. `old` is the container whose ports are wanted.
fn settings(at: &Described, old: &Value, both_run: bool) -> Settings {
    let container = &at.container;
    let part = |pointer: &str| members(container.pointer(pointer).cloned().unwrap_or_default());
    let mut all = Settings::new();
    add_config(&mut all, part("/Config"), at);
    let mut host = part("/HostConfig");
    remove_anonymous_volumes(&mut host);
    // A file of the client that made it.
    host.remove("ContainerIDFile");
    if let Some(Value::Array(links)) = host.get_mut("Links") {
        // In no order.
        links.sort_by_key(Value::to_string);
    }
    add(&mut all, "HostConfig", host);
    for mount in container["Mounts"].as_array().into_iter().flatten() {
        let path = mount["Destination"].as_str().unwrap_or_default();
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
        let path = format!("{NETWORKS}.{network}");
        add(&mut all, &path, own);
        all.insert(path, true.into());
    }
    // The engine has these while a container runs.
    let ports = part("/NetworkSettings/Ports").into_iter();
    for (port, bound) in ports.filter(|_| both_run) {
        let wanted = old["HostConfig"]["PortBindings"][&port].as_array();
        // The engine chose the others.
        let is_fixed = wanted.into_iter().flatten().all(|at| {
            let port = at["HostPort"].as_str().unwrap_or_default();
            port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        let is_fixed = is_fixed && !publishes_all(old);
        let shown = |at: &Value| match is_fixed {
            true => format!("{} {}", at["HostIp"], at["HostPort"]),
            false => at["HostIp"].to_string(),
        };
        let bound = bound.as_array().into_iter().flatten().map(shown);
        let bound: BTreeSet<String> = bound.collect();
        if !bound.is_empty() {
            all.insert(format!("{PORTS}.{port}"), json!(bound));
        }
    }
    all
}

fn publishes_all(container: &Value) -> bool {
    container["HostConfig"]["PublishAllPorts"] == true
}

/// Adds the `Config` of a container, without the marks of this server and a name that the engine made.
fn add_config(all: &mut Settings, mut config: Map<String, Value>, at: &Described) {
    let id = at.container["Id"].as_str().unwrap_or_default();
    let name = config.get("Hostname").and_then(Value::as_str);
    if name.is_some_and(|name| is_id(name, id)) {
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
mod tests;
