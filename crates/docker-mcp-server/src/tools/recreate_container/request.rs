//! The request that makes a container once more: its own options, without what came from its image or from
//! the engine, and the changes.

use bollard::models::ContainerCreateBody;
use mcp_core::tool::ToolError;
use serde_json::{Map, Value, json};

use super::super::create_container::CreateContainer;
use super::comparison::Asked;
use crate::engine::ObjectName;
use crate::engine::own_options::{OwnOptions, kept_volumes, members};
use crate::policy::permit_marks;

/// A new container.
pub(super) struct Request {
    pub(super) body: ContainerCreateBody,
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
    let own = OwnOptions::new(old, defaults);
    let (mut body, mut host, mut networks) = (own.config, own.host, own.networks);
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
    let removals = env.as_array().into_iter().flatten();
    let removals = removals.filter(|line| line.as_str().is_some_and(|line| !line.contains('=')));
    let removals: Vec<Value> = removals.cloned().collect();
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
    let image = body.get("Image").cloned().unwrap_or_default();
    changes.entry("image").or_insert(image);
    let invalid = |error| ToolError::invalid_argument(format!("changes: {error}."));
    let changes: CreateContainer = serde_json::from_value(changes.into()).map_err(invalid)?;
    let mut changes = serde_json::to_value(changes.body()?).map_err(invalid)?;
    let mut new_host = members(changes["HostConfig"].take());
    new_host.retain(|_, value| !value.is_null());
    let new = members(changes);
    asked.add(&new, &new_host);
    // What belonged to an option that is replaced goes with it, and the rest stays.
    let replaced = |name: &str| new_host.contains_key(name);
    if replaced("Memory") {
        host.remove("MemorySwap");
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
        let at = networks
            .iter()
            .position(|(name, _)| *name == own.main_network);
        let main = at.map(|at| networks.remove(at));
        let mode = host.get("NetworkMode").cloned().unwrap_or_default();
        let mode = || (mode.as_str().unwrap_or_default().to_owned(), json!({}));
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
        let published = members(host.remove("PortBindings").unwrap_or_default());
        let mut exposed = members(body.remove("ExposedPorts").unwrap_or_default());
        exposed.retain(|port, _| !published.contains_key(port));
        exposed.extend(members(
            new.get("ExposedPorts").cloned().unwrap_or_default(),
        ));
        body.insert("ExposedPorts".to_owned(), exposed.into());
    }
    keep_other_options(&host, &mut new_host);
    host.extend(new_host);
    let kept_volumes = kept_volumes(old, &host);
    body.insert("HostConfig".to_owned(), host.into());
    let new = new.into_iter();
    body.extend(new.filter(|(name, value)| name != "ExposedPorts" && !value.is_null()));
    if !removals.is_empty() {
        let mut env = removals;
        let own = body.get("Env").and_then(Value::as_array);
        env.extend(own.into_iter().flatten().cloned());
        body.insert("Env".to_owned(), env.into());
    }
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
        let mut options = members(old["Config"].clone());
        options.extend(members(new["Config"].take()));
        new["Config"] = options.into();
    }
    if let Some(Value::Array(new)) = new_host.get_mut("SecurityOpt") {
        let old = host.get("SecurityOpt").and_then(Value::as_array);
        let is_other = |option: &&Value| {
            let option = option.as_str().unwrap_or_default();
            !option.starts_with("no-new-privileges")
        };
        new.extend(old.into_iter().flatten().filter(is_other).cloned());
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
            "Config": {"Hostname": "abcdef012345", "Domainname": "example", "Image": "app:1", "Cmd": ["run"], "Entrypoint": ["/x"],
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
            ("/ExposedPorts", json!({"80/tcp": {}})),
            ("/Domainname", json!("example")),
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
}
