//! The options of a container that its user has set, without what came from its image or from the engine: what
//! a request needs that makes it once more.

use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

use crate::engine::container::is_anonymous;

/// Members of `Config` that an image has, too.
const FROM_IMAGE: &str = "Entrypoint Cmd WorkingDir User StopSignal Healthcheck Shell OnBuild";
/// Members that the engine has set.
const OF_ENGINE: &str = "OnBuild ArgsEscaped";
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

/// The options of a container, in the form of the engine.
pub(crate) struct OwnOptions {
    /// Members of the request itself.
    pub(crate) config: Map<String, Value>,
    /// The `HostConfig`, without anonymous volumes.
    pub(crate) host: Map<String, Value>,
    /// The name of the network that it is created in.
    pub(crate) main_network: String,
    /// The settings of its endpoint in each network with a name of its own.
    pub(crate) networks: Vec<(String, Value)>,
}

impl OwnOptions {
    /// The options of the container that the engine describes as `container`; `defaults` is the `Config` of
    /// its image.
    pub(crate) fn new(container: &Value, defaults: &Value) -> Self {
        let mut host = own_host_config(container);
        remove_anonymous_volumes(&mut host);
        let (main_network, networks) = endpoints(container);
        Self {
            config: own_config(container, defaults),
            host,
            main_network,
            networks,
        }
    }
}

/// The `Config` of the container without what its image and the engine have set.
pub(crate) fn own_config(old: &Value, defaults: &Value) -> Map<String, Value> {
    let mut config = members(old["Config"].clone());
    let id = old["Id"].as_str().unwrap_or_default();
    let has_own_name = |config: &Map<String, Value>| {
        let name = config.get("Hostname").and_then(Value::as_str);
        name.is_some_and(|name| !name.is_empty() && !is_id(name, id))
    };
    let mode = old["HostConfig"]["NetworkMode"]
        .as_str()
        .unwrap_or_default();
    let is_of_another = mode == "host" || mode.starts_with("container:");
    if !has_own_name(&config) || is_of_another {
        config.remove("Hostname");
    }
    if is_of_another {
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

/// A member that is set: the engine writes null or an empty list for one that is not.
fn given(member: Option<&Value>) -> Option<&Value> {
    member.filter(|value| !value.is_null() && **value != json!([]))
}

/// The `HostConfig` without the engine's own defaults, which count as access to the host.
fn own_host_config(old: &Value) -> Map<String, Value> {
    let mut host = members(old["HostConfig"].clone());
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
    for name in ["ContainerIDFile", "Isolation"] {
        host.remove(name);
    }
    host
}

/// The name of its main network, and what the user has set in each network with a name of its own.
fn endpoints(old: &Value) -> (String, Vec<(String, Value)>) {
    let mode = old["HostConfig"]["NetworkMode"]
        .as_str()
        .unwrap_or_default();
    let networks = members(old["NetworkSettings"]["Networks"].clone());
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
pub(crate) fn own_endpoint(endpoint: &Value, container: &Value) -> Map<String, Value> {
    let id = container["Id"].as_str().unwrap_or_default();
    let mut own = members(endpoint.clone());
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
pub(crate) fn is_id(name: &str, id: &str) -> bool {
    name.len() >= SHORT_ID && id.starts_with(name)
}

/// Whether the MAC address of an endpoint is the user's. The engine tells that of the main network only; elsewhere it
/// is compared with the address that engines before version 28 (which have no `GwPriority`) make of the IP address.
fn has_own_mac(endpoint: &Value, container: &Value) -> bool {
    let text = |name: &str| endpoint[name].as_str().unwrap_or_default();
    let mac = text("MacAddress");
    let is_random = endpoint.get("GwPriority").is_some()
        // Podman.
        || container["HostConfig"]["Runtime"] == "oci";
    let Ok(address) = text("IPAddress").parse::<Ipv4Addr>() else {
        return false;
    };
    let [a, b, c, d] = address.octets();
    let generated = format!("02:42:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
    !mac.is_empty() && !is_random && mac != generated
}

/// Removes the anonymous volumes, also those that a replacement before this one has mounted by name.
pub(crate) fn remove_anonymous_volumes(host: &mut Map<String, Value>) {
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
                let source = mount["Source"].as_str().unwrap_or_default();
                mount["Type"] != "volume" || !(source.is_empty() || is_anonymous(source))
            }
        });
    }
}

/// The anonymous volumes of the old container, as binds at the same paths, without those whose path has
/// another mount now.
pub(crate) fn kept_volumes(old: &Value, host: &Map<String, Value>) -> Vec<String> {
    let mounts = ["Binds", "Mounts"].map(|name| host.get(name).and_then(Value::as_array));
    let taken = mounts.into_iter().flatten().flatten();
    let taken = taken.filter_map(|mount| match mount.as_str() {
        Some(bind) => bind.split(':').nth(1),
        None => mount["Target"].as_str(),
    });
    let taken: Vec<&str> = taken.collect();
    let mut kept = Vec::new();
    for mount in old["Mounts"].as_array().into_iter().flatten() {
        let text = |name: &str| mount[name].as_str().unwrap_or_default();
        let (name, path) = (text("Name"), text("Destination"));
        if text("Type") == "volume" && is_anonymous(name) && !taken.contains(&path) {
            let mode = if mount["RW"] == false { ":ro" } else { "" };
            kept.push(format!("{name}:{path}{mode}"));
        }
    }
    kept
}

/// Returns the members of an object; none of any other value.
pub(crate) fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
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
}
