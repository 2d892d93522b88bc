//! The request that makes a container once more: its own options, without what came from its image or from
//! the engine, and the changes.

use docker_engine::api::ContainerCreateBody;
use docker_engine::{ObjectName, is_anonymous};
use mcp_core::tool::ToolError;
use serde_json::{Map, Value, json};

use super::super::create_container::CreateContainer;
use crate::policy::permit_marks;

/// Members of `Config` that an image has, too.
const FROM_IMAGE: &str = "Entrypoint Cmd WorkingDir User StopSignal Healthcheck Shell OnBuild";
/// Members that the engine has set.
const OF_ENGINE: &str = "MacAddress OnBuild ArgsEscaped";
/// Members of an endpoint that the user has set.
const OF_ENDPOINT: [&str; 4] = ["IPAMConfig", "Links", "Aliases", "DriverOpts"];

/// A new container.
pub(super) struct Request {
    pub(super) body: ContainerCreateBody,
    /// The anonymous volumes of the old container, as binds: they hold its data. No rule names them.
    pub(super) kept_volumes: Vec<String>,
    /// Further networks: engines before version 25 take one with the request.
    pub(super) networks: Vec<(ObjectName, Value)>,
}

/// Merges the changes into the options of the container that the engine describes as `old`;
/// `defaults` is the `Config` of its image.
/// Errors when a change is not an option of a new container.
pub(super) fn merge(
    old: &Value,
    defaults: &Value,
    mut changes: Map<String, Value>,
) -> Result<Request, ToolError> {
    let mut body = own_config(old, defaults);
    let mut host = own_host_config(old);
    let (main, networks) = endpoints(old);
    let mut networks: Vec<(String, Value)> = networks.into_iter().collect();
    for name in ["name", "only_create", "auto_remove"] {
        if changes.contains_key(name) {
            let text = format!("changes: `{name}` cannot be changed.");
            return Err(ToolError::invalid_argument(text));
        }
    }
    if let Some(Value::Object(labels)) = changes.get("labels") {
        permit_marks("", labels.keys())?;
    }
    let env = body.remove("Env").unwrap_or_default();
    let env = env.as_array().into_iter().flatten().filter_map(|line| {
        let (name, value) = line.as_str()?.split_once('=')?;
        Some((name.to_owned(), value.into()))
    });
    let labels = members(body.remove("Labels").unwrap_or_default());
    for (name, mut all) in [("env", env.collect()), ("labels", labels)] {
        let given = changes.entry(name).or_insert(json!({}));
        // Any other value is not valid, which the next step says.
        if let Value::Object(given) = given {
            all.append(given);
            all.retain(|_, value| !value.is_null());
            *given = all;
        }
    }
    let image = body["Image"].clone();
    changes.entry("image").or_insert(image);
    let invalid = |error| ToolError::invalid_argument(format!("changes: {error}."));
    let changes: CreateContainer = serde_json::from_value(changes.into()).map_err(invalid)?;
    let mut changes = serde_json::to_value(changes.body()?).map_err(invalid)?;
    let new_host = changes["HostConfig"].take();
    // What belonged to an option that is replaced goes with it.
    let replaced = |name: &str| !new_host[name].is_null();
    if replaced("Memory") {
        host.remove("MemorySwap");
    }
    if replaced("Binds") {
        host.remove("Mounts");
    }
    if replaced("NetworkMode") {
        networks.clear();
    } else if let Some(at) = networks.iter().position(|(name, _)| *name == main) {
        let (name, endpoint) = networks.remove(at);
        body.insert(
            "NetworkingConfig".to_owned(),
            json!({"EndpointsConfig": {name: endpoint}}),
        );
    }
    remove_anonymous_volumes(&mut host);
    host.extend(members(new_host));
    let kept_volumes = anonymous_volumes(old, &host);
    body.insert("HostConfig".to_owned(), host.into());
    body.extend(
        members(changes)
            .into_iter()
            .filter(|(_, value)| !value.is_null()),
    );
    let unreadable = |error: serde_json::Error| {
        let text = "The options of this container cannot be read: create it by create_container.";
        ToolError::upstream(text).caused_by(error)
    };
    let networks = networks.into_iter();
    let networks =
        networks.filter_map(|(name, endpoint)| Some((ObjectName::new(&name).ok()?, endpoint)));
    Ok(Request {
        body: serde_json::from_value(body.into()).map_err(unreadable)?,
        kept_volumes,
        networks: networks.collect(),
    })
}

/// The `Config` of the container without what its image and the engine have set.
fn own_config(old: &Value, defaults: &Value) -> Map<String, Value> {
    let mut config = members(old["Config"].clone());
    let id = old["Id"].as_str().unwrap_or_default();
    let has_own_name = |config: &Map<String, Value>| {
        let name = config.get("Hostname").and_then(Value::as_str);
        name.is_some_and(|name| !name.is_empty() && !id.starts_with(name))
    };
    let mode = old["HostConfig"]["NetworkMode"]
        .as_str()
        .unwrap_or_default();
    if !has_own_name(&config) || mode == "host" || mode.starts_with("container:") {
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
    for name in ["ContainerIDFile", "ConsoleSize", "Isolation"] {
        host.remove(name);
    }
    host
}

/// The name of its main network, and what the user has set in each network with a name of its own.
fn endpoints(old: &Value) -> (String, Map<String, Value>) {
    let mode = old["HostConfig"]["NetworkMode"]
        .as_str()
        .unwrap_or_default();
    let id = old["Id"].as_str().unwrap_or_default();
    let mut main = mode.to_owned();
    let mut networks = Map::new();
    for (name, mut endpoint) in members(old["NetworkSettings"]["Networks"].clone()) {
        if endpoint["NetworkID"] == mode {
            main.clone_from(&name);
        }
        if matches!(&*name, "bridge" | "host" | "none" | "podman") {
            continue;
        }
        if let Some(Value::Array(aliases)) = endpoint.get_mut("Aliases") {
            let is_id = |alias: &Value| alias.as_str().is_some_and(|alias| id.starts_with(alias));
            aliases.retain(|alias| !is_id(alias));
        }
        let mut endpoint = members(endpoint);
        endpoint.retain(|member, _| OF_ENDPOINT.contains(&member.as_str()));
        networks.insert(name, endpoint.into());
    }
    (main, networks)
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
                let source = mount["Source"].as_str().unwrap_or_default();
                mount["Type"] != "volume" || !(source.is_empty() || is_anonymous(source))
            }
        });
    }
}

/// The anonymous volumes of the old container, as binds at the same paths, without those whose path has
/// another mount now.
fn anonymous_volumes(old: &Value, host: &Map<String, Value>) -> Vec<String> {
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

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_options_stay_and_those_of_the_image_go() {
        let [data, logs, tmp] = ["ab", "cd", "ef"].map(|digits| digits.repeat(32));
        let old = json!({
            "Id": "abcdef0123456789", "Image": "sha256:1",
            "Config": {"Hostname": "abcdef012345", "Image": "app:1", "Cmd": ["run"], "Entrypoint": ["/x"],
                "Env": ["PATH=/bin", "A=1", "B=2", "C=3"], "Labels": {"own": "1", "image": "2", "gone": "3"},
                "ExposedPorts": {"80/tcp": {}, "81/tcp": {}}, "User": "me"},
            "HostConfig": {"NetworkMode": "front", "Memory": 5, "MemorySwap": 10,
                "Binds": ["data:/data", "/logs", format!("{tmp}:/tmp")], "Mounts": [{"Type": "volume", "Target": "/cache"}],
                "MaskedPaths": ["/proc/kcore"], "CgroupnsMode": "host", "RestartPolicy": {"Name": "always"}},
            "Mounts": [{"Type": "volume", "Name": data, "Destination": "/cache", "RW": false},
                {"Type": "volume", "Name": logs, "Destination": "/logs", "RW": true},
                {"Type": "volume", "Name": tmp, "Destination": "/tmp", "RW": true}],
            "NetworkSettings": {"Networks": {
                "front": {"Aliases": ["web", "abcdef012345"], "IPAddress": "1.2.3.4"},
                "back": {"Aliases": ["api"], "NetworkID": "x"}}},
        });
        let image = json!({"Cmd": ["run"], "Entrypoint": ["/x"], "Env": ["PATH=/bin"],
            "Labels": {"image": "2"}, "ExposedPorts": {"81/tcp": {}}});
        let changes = json!({"image": "app:2", "env": {"B": "9", "C": null}, "labels": {"gone": null},
            "memory_mb": 64});
        let made = merge(&old, &image, members(changes)).unwrap();
        let body = serde_json::to_value(made.body).unwrap();
        let kept = [
            format!("{data}:/cache:ro"),
            format!("{logs}:/logs"),
            format!("{tmp}:/tmp"),
        ];
        assert_eq!(made.kept_volumes, kept);
        let front = json!({"front": {"Aliases": ["web"]}});
        for (pointer, expected) in [
            ("/Image", json!("app:2")),
            ("/Env", json!(["A=1", "B=9"])),
            ("/Labels", json!({"own": "1"})),
            ("/User", json!("me")),
            ("/Cmd", Value::Null),
            ("/Hostname", Value::Null),
            ("/HostConfig/Memory", json!(64 << 20)),
            ("/HostConfig/MemorySwap", Value::Null),
            ("/HostConfig/MaskedPaths", Value::Null),
            ("/HostConfig/Binds", json!(["data:/data"])),
            ("/HostConfig/Mounts", json!([])),
            ("/HostConfig/RestartPolicy/Name", json!("always")),
            ("/NetworkingConfig/EndpointsConfig", front),
        ] {
            let found = body.pointer(pointer).unwrap_or(&Value::Null);
            assert_eq!(*found, expected, "{pointer}");
        }
        assert_eq!(made.networks.len(), 1);
        for wrong in [
            json!({"name": "x"}),
            json!({"imagee": "x"}),
            json!({"env": 1}),
            json!({"labels": {"docker-mcp-server.created": "x"}}),
        ] {
            assert!(merge(&old, &image, members(wrong)).is_err());
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
