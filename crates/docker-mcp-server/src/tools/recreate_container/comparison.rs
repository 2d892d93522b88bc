//! The comparison of a container with the one that replaces it: what differs, and was not asked for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::engine::is_anonymous;
use crate::engine::own_options::{is_id, members, own_endpoint, remove_anonymous_volumes};
use crate::policy::{CREATED, REPLACES};

/// Members of the `Config` that are compared entry by entry: an image has some of them.
const BY_ENTRY: [&str; 4] = ["Env", "Labels", "ExposedPorts", "Volumes"];

/// The changes that a call asked for.
#[derive(Default)]
pub(super) struct Asked {
    env: BTreeSet<String>,
    labels: BTreeSet<String>,
    /// Members of the `Config` and of the `HostConfig`.
    config: BTreeSet<String>,
    host: BTreeSet<String>,
}

impl Asked {
    /// The arguments of a call.
    pub(super) fn new(changes: &Map<String, Value>) -> Self {
        let keys = |name: &str| {
            let given = changes.get(name).and_then(Value::as_object);
            given
                .into_iter()
                .flatten()
                .map(|(key, _)| key.clone())
                .collect()
        };
        let image = changes.contains_key("image").then(|| "Image".to_owned());
        Self {
            env: keys("env"),
            labels: keys("labels"),
            config: image.into_iter().collect(),
            host: BTreeSet::new(),
        }
    }

    /// Adds the members of the request that the arguments set.
    pub(super) fn add(&mut self, config: &Map<String, Value>, host: &Map<String, Value>) {
        let set = config.iter().filter(|(_, value)| !value.is_null());
        let names = set.map(|(name, _)| name.clone());
        self.config
            .extend(names.filter(|name| !matches!(&**name, "Image" | "Env" | "Labels")));
        self.host.extend(host.keys().cloned());
        for (set, others) in [
            (&mut self.config, [("Entrypoint", "Cmd")].as_slice()),
            (
                &mut self.host,
                [("Memory", "MemorySwap"), ("Binds", "Mounts")].as_slice(),
            ),
        ] {
            for (option, other) in others {
                if set.contains(*option) {
                    set.insert((*other).to_owned());
                }
            }
        }
        if self.host.contains("NetworkMode") {
            // The address was one of the network before.
            self.config.insert("MacAddress".to_owned());
        }
    }

    fn has_entry(&self, member: &str, key: &str) -> bool {
        match member {
            "Env" => self.env.contains(key),
            "Labels" => self.labels.contains(key) || key == CREATED || key == REPLACES,
            _ => false,
        }
    }
}

/// A container as the engine describes it, with the `Config` of its image.
#[derive(Default)]
pub(super) struct Described {
    pub(super) container: Value,
    pub(super) defaults: Value,
}

/// The members in which `new` differs from `old`, apart from what was asked for, what a new image brings, and what the
/// engine makes new for each container.
pub(super) fn differences(old: &Described, new: &Described, asked: &Asked) -> Vec<String> {
    let comparison = Comparison { old, new, asked };
    let mut found = comparison.config();
    found.extend(comparison.host());
    found.extend(comparison.mounts());
    found.extend(comparison.networks());
    found.extend(comparison.ports());
    found
}

struct Comparison<'a> {
    old: &'a Described,
    new: &'a Described,
    asked: &'a Asked,
}

impl Comparison<'_> {
    fn config(&self) -> Vec<String> {
        let [old, new] = self.both("/Config");
        let mut found = Vec::new();
        for name in names(&old, &new) {
            let (before, after) = (given(old.get(&name)), given(new.get(&name)));
            if BY_ENTRY.contains(&&*name) {
                let keys = self.entries(&name, before, after);
                found.extend(keys.into_iter().map(|key| format!("Config.{name}.{key}")));
                continue;
            }
            let is_generated = |at: &Described, value: Option<&Value>| {
                let id = at.container["Id"].as_str().unwrap_or_default();
                let value = value.and_then(Value::as_str);
                value.is_some_and(|value| is_id(value, id))
            };
            let is_fine = before == after
                || self.asked.config.contains(&name)
                || (name == "Hostname"
                    && is_generated(self.old, before)
                    && is_generated(self.new, after))
                || (self.has_other_image()
                    && before == given(self.old.defaults.get(&name))
                    && after == given(self.new.defaults.get(&name)));
            if !is_fine {
                found.push(format!("Config.{name}"));
            }
        }
        found
    }

    /// The entries in which a member of the `Config` differs.
    fn entries(&self, member: &str, old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
        let (old, new) = (entries(old), entries(new));
        let of_image = |at: &Described| entries(at.defaults.get(member));
        let (old_default, new_default) = (of_image(self.old), of_image(self.new));
        let published = match self.asked.host.contains("PortBindings") {
            true => self.both("/HostConfig/PortBindings"),
            false => [Map::new(), Map::new()],
        };
        let is_fine = |key: &String| {
            let (before, after) = (old.get(key), new.get(key));
            let is_of_images = (before.is_none() || before == old_default.get(key))
                && (after.is_none() || after == new_default.get(key));
            before == after
                || self.asked.has_entry(member, key)
                || (member == "ExposedPorts" && published.iter().any(|at| at.contains_key(key)))
                || (self.has_other_image() && is_of_images)
        };
        let keys = old.keys().chain(new.keys()).filter(|key| !is_fine(key));
        keys.cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn host(&self) -> Vec<String> {
        let [mut old, mut new] = self.both("/HostConfig");
        for host in [&mut old, &mut new] {
            remove_anonymous_volumes(host);
            // A file of the client that made it.
            host.remove("ContainerIDFile");
            if let Some(Value::Array(links)) = host.get_mut("Links") {
                // In no order.
                links.sort_by_key(Value::to_string);
            }
        }
        let names = names(&old, &new).into_iter();
        let differing = names.filter(|name| {
            given(old.get(name)) != given(new.get(name)) && !self.asked.host.contains(name)
        });
        differing.map(|name| format!("HostConfig.{name}")).collect()
    }

    fn mounts(&self) -> Vec<String> {
        let [old, new] = [self.old, self.new].map(|at| {
            let mounts = at.container["Mounts"].as_array().into_iter().flatten();
            let mount = |mount: &Value| {
                let path = mount["Destination"].as_str().unwrap_or_default().to_owned();
                let what = ["Type", "Name", "Source", "RW", "Propagation"];
                let what = what.map(|name| given(mount.get(name)).cloned());
                (path, what)
            };
            mounts.map(mount).collect::<BTreeMap<_, _>>()
        });
        let asked = self.asked.host.contains("Binds");
        let of_image = |path: &str| {
            let volumes = &self.new.defaults["Volumes"];
            self.has_other_image() && !volumes[path].is_null()
        };
        let is_fine = |path: &String| match (old.get(path), new.get(path)) {
            (before, after) if before == after => true,
            (None, Some(_)) => asked || of_image(path),
            (Some(_), Some(_)) => asked,
            // The data of one without a name would be lost with it.
            (Some([_, Some(name), ..]), None) => asked && !name.as_str().is_some_and(is_anonymous),
            _ => asked,
        };
        let paths = old.keys().chain(new.keys()).filter(|path| !is_fine(path));
        let paths: BTreeSet<_> = paths.collect();
        paths
            .into_iter()
            .map(|path| format!("Mounts.{path}"))
            .collect()
    }

    fn networks(&self) -> Vec<String> {
        if self.asked.host.contains("NetworkMode") {
            return Vec::new();
        }
        let [old, new] = self.both("/NetworkSettings/Networks");
        let mut found = Vec::new();
        for network in names(&old, &new) {
            let (Some(before), Some(after)) = (old.get(&network), new.get(&network)) else {
                found.push(format!("NetworkSettings.Networks.{network}"));
                continue;
            };
            let [before, after] = [(before, self.old), (after, self.new)].map(|(endpoint, at)| {
                let mut own = own_endpoint(endpoint, &at.container);
                if let Some(Value::Array(aliases)) = own.get_mut("Aliases") {
                    aliases.sort_by_key(Value::to_string);
                    aliases.dedup();
                }
                own
            });
            // It has one only when it runs.
            let is_unknown = |name: &str| name == "MacAddress" && !self.both_run();
            let differing = names(&before, &after).into_iter().filter(|name| {
                given(before.get(name)) != given(after.get(name)) && !is_unknown(name)
            });
            found
                .extend(differing.map(|name| format!("NetworkSettings.Networks.{network}.{name}")));
        }
        found
    }

    /// The published ports, which the engine has while a container runs.
    fn ports(&self) -> Vec<String> {
        if !self.both_run() || self.asked.host.contains("PortBindings") {
            return Vec::new();
        }
        let [old, new] = self.both("/NetworkSettings/Ports");
        let bindings = |ports: &Map<String, Value>, port: &str| {
            let bound = ports.get(port).and_then(Value::as_array);
            let wanted = &self.old.container["HostConfig"]["PortBindings"][port];
            let mut wanted = wanted.as_array().into_iter().flatten();
            // The engine chose the others.
            let is_fixed = wanted.all(|at| {
                let port = at["HostPort"].as_str().unwrap_or_default();
                port.parse::<u16>().is_ok_and(|port| port > 0)
            });
            let is_fixed = is_fixed && !self.publishes_all();
            let shown = |at: &Value| match is_fixed {
                true => format!("{} {}", at["HostIp"], at["HostPort"]),
                false => at["HostIp"].to_string(),
            };
            bound
                .into_iter()
                .flatten()
                .map(shown)
                .collect::<BTreeSet<_>>()
        };
        let of_image = |port: &str| {
            let images = [self.old, self.new].into_iter();
            let mut exposed = images.map(|at| &at.defaults["ExposedPorts"]);
            self.publishes_all()
                && self.has_other_image()
                && exposed.any(|exposed| !exposed[port].is_null())
        };
        let ports = names(&old, &new).into_iter();
        let ports =
            ports.filter(|port| bindings(&old, port) != bindings(&new, port) && !of_image(port));
        ports
            .map(|port| format!("NetworkSettings.Ports.{port}"))
            .collect()
    }

    fn publishes_all(&self) -> bool {
        self.old.container["HostConfig"]["PublishAllPorts"] == true
    }

    fn both_run(&self) -> bool {
        let runs = |at: &Described| at.container["State"]["Running"] == true;
        runs(self.old) && runs(self.new)
    }

    fn has_other_image(&self) -> bool {
        self.old.container["Image"] != self.new.container["Image"]
    }

    fn both(&self, pointer: &str) -> [Map<String, Value>; 2] {
        [self.old, self.new]
            .map(|at| members(at.container.pointer(pointer).cloned().unwrap_or_default()))
    }
}

/// The names of the members of both.
fn names(old: &Map<String, Value>, new: &Map<String, Value>) -> BTreeSet<String> {
    old.keys().chain(new.keys()).cloned().collect()
}

/// A member that is set: engines write null, an empty value or nothing for one that is not.
fn given(member: Option<&Value>) -> Option<&Value> {
    member.filter(|value| {
        let empty = [json!(null), json!([]), json!({}), json!("")];
        !empty.contains(value)
    })
}

/// The entries of an object, or the variables of a list of `NAME=value`.
fn entries(member: Option<&Value>) -> BTreeMap<String, Value> {
    match member {
        Some(Value::Object(entries)) => entries.clone().into_iter().collect(),
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
