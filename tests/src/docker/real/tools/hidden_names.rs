//! Names of hidden objects: no tool mentions one that its caller did not.

use std::collections::BTreeSet;

use bollard::models::{NetworkCreateRequest, VolumeCreateRequest};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, RemoveContainerOptionsBuilder, RemoveImageOptions,
    RemoveVolumeOptions,
};
use serde_json::{Value, json};

use super::super::super::lab::{Lab, merged, published};
use super::bounds::rows;
use super::policy::calls_on;
use super::{lab, lab_with, succeed};
use crate::harness::{Server, assert_lacks};

/// Tools without an argument that names one object.
const LISTS: [&str; 9] = [
    "list_containers",
    "list_images",
    "list_networks",
    "list_volumes",
    "list_events",
    "list_compose_projects",
    "get_system_info",
    "diagnose_host",
    "prune",
];

/// A visible container, network and volume, which hidden objects use, and the port of a hidden one.
struct Visible {
    container: String,
    network: String,
    volume: String,
    port: String,
}

async fn network(lab: &Lab, name: &str) -> String {
    let request: NetworkCreateRequest = serde_json::from_value(json!({"Name": name})).unwrap();
    lab.docker.create_network(request).await.unwrap();
    name.to_owned()
}

async fn volume(lab: &Lab, name: &str) -> String {
    let request: VolumeCreateRequest = serde_json::from_value(json!({"Name": name})).unwrap();
    lab.docker.create_volume(request).await.unwrap();
    name.to_owned()
}

/// Hidden objects, whose names contain `-hidden-`, and visible ones that have to do with them.
async fn plant(lab: &mut Lab) -> Visible {
    let [hidden, hidden_volume] = ["hidden-net", "hidden-vol"].map(|name| lab.name(name));
    network(lab, &hidden).await;
    volume(lab, &hidden_volume).await;
    let shared = network(lab, &lab.name("net")).await;
    let volume = volume(lab, &lab.name("vol")).await;
    let options = json!({
        "Labels": {"com.docker.compose.config-hash": "1", "com.docker.compose.project": lab.name("hidden-project")},
        "HostConfig": {"NetworkMode": shared, "Binds": [format!("{volume}:/d")]},
    });
    let secret = merged(published("0"), options);
    let secret = lab.run("hidden-web", &["sleep", "600"], secret).await;
    let shown = succeed!(lab, "get_container", {"container": secret});
    let port = shown["ports"][0].as_str().unwrap();
    let port = port[port.find(':').unwrap() + 1..port.find('-').unwrap()].to_owned();
    let commit = CommitContainerOptionsBuilder::new().container(&secret);
    let commit = commit.repo(&lab.name("picture")).tag("1").build();
    let config: bollard::models::ContainerConfig = serde_json::from_value(json!({})).unwrap();
    lab.docker.commit_container(commit, config).await.unwrap();
    // Its log names the hidden service, as a message about a failed connection does.
    let script = "echo 'dial tcp: lookup web: connection refused' >&2; exec sleep 600";
    let options =
        json!({"HostConfig": {"NetworkMode": hidden, "Binds": [format!("{hidden_volume}:/d:ro")]}});
    let container = lab.run("web", &["sh", "-c", script], options).await;
    Visible {
        container,
        network: shared,
        volume,
        port,
    }
}

async fn uproot(lab: &Lab) {
    for name in ["hidden-web", "web"] {
        lab.remove(&lab.name(name)).await;
    }
    for name in ["hidden-vol", "vol", "hidde-vol"] {
        let none = None::<RemoveVolumeOptions>;
        lab.docker
            .remove_volume(&lab.name(name), none)
            .await
            .unwrap();
    }
    for name in ["hidden-net", "net"] {
        lab.docker.remove_network(&lab.name(name)).await.unwrap();
    }
    for name in ["picture", "hidde-image"] {
        let image = format!("{}:1", lab.name(name));
        let image = lab
            .docker
            .remove_image(&image, None::<RemoveImageOptions>, None);
        image.await.unwrap();
    }
}

/// Calls of all tools, with names that are nearly those of hidden objects, and with visible objects.
fn calls(lab: &Lab, visible: &Visible) -> Vec<(&'static str, Value)> {
    let near = |name: &str| lab.name(&format!("hidde-{name}"));
    let mut calls = calls_on(&near("web"));
    calls.extend(calls_on(&visible.container));
    for (kind, tool, _, arguments) in rows() {
        let names = match kind {
            "volume" => vec![near("vol"), visible.volume.clone()],
            "network" => vec![near("net"), visible.network.clone()],
            _ => vec![near("image:1")],
        };
        for name in names {
            let text = arguments.to_string().replace('@', &name);
            let text = text.replace("OWN", &visible.container);
            let mut arguments: Value = serde_json::from_str(&text).unwrap();
            if tool == "create_container" {
                arguments["name"] = json!(lab.name("taken"));
            }
            arguments["confirm"] = json!(name);
            calls.push((tool, arguments.clone()));
            arguments.as_object_mut().unwrap().remove("confirm");
            calls.push((tool, arguments));
        }
    }
    let project = json!({"project": near("project")});
    calls.extend([
        ("get_container_logs", project.clone()),
        ("compose_down", project.clone()),
        (
            "compose_up",
            merged(project.clone(), json!({"directory": "/"})),
        ),
        (
            "compose_config",
            merged(project.clone(), json!({"directory": "/"})),
        ),
        (
            "compose_service",
            merged(project.clone(), json!({"action": "start"})),
        ),
        ("list_compose_projects", project),
        (
            "create_container",
            json!({"image": "busybox:test", "pid": format!("container:{}", near("web"))}),
        ),
        (
            "create_container",
            json!({"image": "busybox:test", "name": lab.name("taken"), "command": ["true"],
                "ports": [format!("{}:80", visible.port)]}),
        ),
        ("create_network", json!({"network": visible.network})),
        (
            "diagnose_container",
            json!({"container": lab.name("taken")}),
        ),
    ]);
    for what in ["containers", "images", "networks", "volumes", "build_cache"] {
        calls.push(("prune", json!({"what": what, "all": true})));
    }
    calls.extend(LISTS.map(|tool| (tool, json!({}))));
    calls
}

/// Removes a container that may not exist.
async fn remove(lab: &Lab, name: &str) {
    let options = RemoveContainerOptionsBuilder::new().force(true).build();
    let _ = lab.docker.remove_container(name, Some(options)).await;
}

async fn answer(server: &Server, tool: &str, arguments: &Value) -> String {
    let call = json!({"name": tool, "arguments": arguments});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    let answer: Value = server.post(request.to_string()).await.json();
    answer.to_string()
}

#[tokio::test]
async fn no_tool_mentions_a_hidden_object() {
    let Some(mut lab) = lab().await else { return };
    let visible = plant(&mut lab).await;
    let pattern = lab.name("hidden-*");
    let deny = format!("name={pattern}");
    let env = [("DOCKER_MCP_DENY", &*deny), ("DOCKER_MCP_ALLOW_EXEC", "1")];
    let bounded = lab_with(&env).await.unwrap();
    let hidden = lab.name("hidden-");
    let mut covered = BTreeSet::new();
    let taken = lab.adopt("taken");
    for (tool, arguments) in calls(&lab, &visible) {
        if tool == "create_container" {
            remove(&lab, &taken).await;
        }
        let text = answer(&bounded, tool, &arguments).await;
        assert_lacks(&text, &hidden);
        covered.insert(tool);
    }
    let listed = bounded.server.result("tools/list", json!({})).await;
    for tool in listed["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        assert!(covered.contains(name), "{name} is not called");
    }
    remove(&lab, &taken).await;
    uproot(&lab).await;
}

/// An id tells no name either.
#[tokio::test]
async fn refusals_name_what_the_caller_named() {
    let Some(mut lab) = lab().await else { return };
    let secret = lab.run("hidden-web", &["sleep", "600"], json!({})).await;
    let details = lab.docker.inspect_container(&secret, None).await.unwrap();
    let deny = format!("name={secret}");
    let bounded = lab_with(&[("DOCKER_MCP_DENY", &deny)]).await.unwrap();
    let arguments = json!({"container": details.id.unwrap()});
    let text = answer(&bounded, "get_container", &arguments).await;
    assert_lacks(&text, &secret);
}
