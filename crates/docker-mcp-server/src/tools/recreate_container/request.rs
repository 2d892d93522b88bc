//! The request that makes a container once more: its own options, without what came from its image or from
//! the engine, and the changes.

use bollard::models::{ContainerCreateBody, EndpointSettings};
use mcp_core::tool::ToolError;
use serde_json::{Map, Value, json};

use super::super::create_container::CreateContainer;
use crate::engine::is_anonymous;

/// Members of `Config` that an image has, too.
const FROM_IMAGE: &str = "Entrypoint Cmd WorkingDir User StopSignal Healthcheck Shell OnBuild";
/// Members that the engine has set.
const OF_ENGINE: &str = "MacAddress OnBuild ArgsEscaped";
/// Members of an endpoint that the user has set.
const OF_ENDPOINT: [&str; 4] = ["IPAMConfig", "Links", "Aliases", "DriverOpts"];

/// A new container.
pub(super) struct Request {
    pub(super) body: ContainerCreateBody,
    /// Further networks: engines before version 25 take one with the request.
    pub(super) networks: Vec<(String, EndpointSettings)>,
}

/// Merges the changes into the options of the container that the engine describes as `old`;
/// `defaults` is the `Config` of its image.
/// Errors when a change is not an option of a new container.
pub(super) fn merge(
    old: &Value,
    defaults: &Value,
    mut changes: Map<String, Value>,
) -> Result<Request, ToolError> {
    let removed = removed(&mut changes);
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
    host.extend(members(new_host));
    keep_anonymous_volumes(old, &mut host);
    body.insert("HostConfig".to_owned(), host.into());
    for (name, value) in members(changes) {
        match (&*name, value) {
            (_, Value::Null) => {}
            ("Env", Value::Array(new)) => merge_env(&mut body, new),
            ("Labels", Value::Object(new)) => match body.get_mut("Labels") {
                Some(Value::Object(labels)) => labels.extend(new),
                _ => drop(body.insert(name, new.into())),
            },
            (_, value) => drop(body.insert(name, value)),
        }
    }
    if let Some(Value::Array(env)) = body.get_mut("Env") {
        env.retain(|line| !removed.0.iter().any(|name| name == variable(line)));
    }
    if let Some(Value::Object(labels)) = body.get_mut("Labels") {
        labels.retain(|label, _| !removed.1.contains(label));
    }
    let unreadable = |error: serde_json::Error| {
        let text = "The options of this container cannot be read: create it by create_container.";
        ToolError::upstream(text).caused_by(error)
    };
    let endpoint = |(name, endpoint)| Ok((name, serde_json::from_value(endpoint)?));
    Ok(Request {
        body: serde_json::from_value(body.into()).map_err(unreadable)?,
        networks: (networks.into_iter().map(endpoint))
            .collect::<Result<_, _>>()
            .map_err(unreadable)?,
    })
}

/// Takes the environment variables and labels out of `changes` that are null there.
fn removed(changes: &mut Map<String, Value>) -> (Vec<String>, Vec<String>) {
    let mut take = |member: &str| {
        let Some(Value::Object(given)) = changes.get_mut(member) else {
            return Vec::new();
        };
        let null = given.iter().filter(|(_, value)| value.is_null());
        let names: Vec<String> = null.map(|(name, _)| name.clone()).collect();
        given.retain(|_, value| !value.is_null());
        names
    };
    (take("env"), take("labels"))
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
    let own_entrypoint = config.get("Entrypoint") != defaults.get("Entrypoint");
    for name in FROM_IMAGE.split(' ') {
        let is_default = config.get(name) == defaults.get(name);
        if is_default && !(name == "Cmd" && own_entrypoint) {
            config.remove(name);
        }
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

/// Mounts the anonymous volumes of the old container at the same paths: they hold its data.
fn keep_anonymous_volumes(old: &Value, host: &mut Map<String, Value>) {
    let binds = host.get("Binds").and_then(Value::as_array);
    let mut binds = binds.cloned().unwrap_or_default();
    let targets = |bind: &Value| Some(bind.as_str()?.split(':').nth(1)?.to_owned());
    let taken: Vec<String> = binds.iter().filter_map(targets).collect();
    for mount in old["Mounts"].as_array().into_iter().flatten() {
        let text = |name: &str| mount[name].as_str().unwrap_or_default();
        let (name, target) = (text("Name"), text("Destination"));
        let is_taken = taken.iter().any(|taken| taken == target);
        if text("Type") == "volume" && is_anonymous(name) && !is_taken {
            binds.push(format!("{name}:{target}").into());
        }
    }
    host.insert("Binds".to_owned(), binds.into());
}

fn merge_env(body: &mut Map<String, Value>, new: Vec<Value>) {
    let own = body.get("Env").and_then(Value::as_array);
    let mut env = own.cloned().unwrap_or_default();
    env.retain(|line| new.iter().all(|new| variable(new) != variable(line)));
    env.extend(new);
    body.insert("Env".to_owned(), env.into());
}

/// The name in `NAME=value`.
fn variable(line: &Value) -> &str {
    let line = line.as_str().unwrap_or_default();
    line.split('=').next().unwrap_or_default()
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
        let anonymous = "ab".repeat(32);
        let old = json!({
            "Id": "abcdef0123456789", "Image": "sha256:1",
            "Config": {"Hostname": "abcdef012345", "Image": "app:1", "Cmd": ["run"], "Entrypoint": ["/x"],
                "Env": ["PATH=/bin", "A=1", "B=2", "C=3"], "Labels": {"own": "1", "image": "2", "gone": "3"},
                "ExposedPorts": {"80/tcp": {}, "81/tcp": {}}, "User": "me"},
            "HostConfig": {"NetworkMode": "front", "Memory": 5, "MemorySwap": 10, "Binds": ["data:/data"],
                "MaskedPaths": ["/proc/kcore"], "CgroupnsMode": "host", "RestartPolicy": {"Name": "always"}},
            "Mounts": [{"Type": "volume", "Name": anonymous, "Destination": "/cache"}],
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
        let expected = json!({"Image": "app:2", "Env": ["A=1", "B=9"], "Labels": {"own": "1"},
            "User": "me"});
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&body[name], value, "{body}");
        }
        assert!(
            body.get("Cmd").is_none() && body.get("Hostname").is_none(),
            "{body}"
        );
        let host = &body["HostConfig"];
        assert_eq!(host["Memory"], 64 << 20);
        assert!(
            host["MemorySwap"].is_null() && host["MaskedPaths"].is_null(),
            "{host}"
        );
        assert_eq!(
            host["Binds"],
            json!(["data:/data", format!("{anonymous}:/cache")])
        );
        assert_eq!(host["RestartPolicy"]["Name"], "always");
        let front = &body["NetworkingConfig"]["EndpointsConfig"]["front"];
        assert_eq!(*front, json!({"Aliases": ["web"]}));
        assert_eq!(made.networks.len(), 1);
        for wrong in [
            json!({"name": "x"}),
            json!({"imagee": "x"}),
            json!({"env": 1}),
        ] {
            assert!(merge(&old, &image, members(wrong)).is_err());
        }
    }
}
