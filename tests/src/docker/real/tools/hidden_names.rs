//! Names of hidden objects: no tool mentions one that its caller did not.

use bollard::query_parameters::RemoveContainerOptionsBuilder;

use crate::docker::prelude::*;

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
    /// Of the hidden container, which tells no name either.
    hidden_id: String,
    container: String,
    network: String,
    volume: String,
    port: String,
}

/// Hidden objects, whose names contain `-hidden-`, and visible ones that have to do with them.
async fn plant(lab: &Lab) -> Visible {
    for name in ["hidden-net", "net"] {
        lab.network(name).await;
    }
    let (hidden, shared) = (lab.name("hidden-net"), lab.name("net"));
    let hidden_volume = lab.volume("hidden-vol", json!({})).await;
    let volume = lab.volume("vol", json!({})).await;
    let options = json!({
        "Labels": {"com.docker.compose.config-hash": "1", "com.docker.compose.project": lab.name("hidden-project")},
        "HostConfig": {"NetworkMode": shared, "Binds": [format!("{volume}:/d")]},
    });
    let secret = merged(published("0"), options);
    let secret = lab.sleep("hidden-web", secret).await;
    let address = lab.address(&secret).await;
    let port = address.rsplit(':').next().unwrap().to_owned();
    lab.image("picture", &secret).await;
    // Its log names the hidden service, as a message about a failed connection does.
    let script = "echo 'dial tcp: lookup web: connection refused' >&2; exec sleep 600";
    let options =
        json!({"HostConfig": {"NetworkMode": hidden, "Binds": [format!("{hidden_volume}:/d:ro")]}});
    let container = lab.run("web", &["sh", "-c", script], options).await;
    Visible {
        hidden_id: lab.id(&secret).await,
        container,
        network: shared,
        volume,
        port,
    }
}

/// Calls with names that are nearly those of hidden objects, or that meet one of them.
const NEAR: &str = r#"
compose_service | {"project": "$PROJECT", "action": "start"}
list_compose_projects | {"project": "$PROJECT"}
create_container | {"image": "busybox:test", "pid": "container:$Phidde-web"}
create_container | {"image": "busybox:test", "name": "$TAKEN", "command": ["true"], "ports": ["$PORT:80"]}
create_network | {"network": "$NETWORK"}
diagnose_container | {"container": "$TAKEN"}
"#;

/// Calls of all tools, with names that are nearly those of hidden objects, and with visible objects.
fn calls(lab: &Lab, visible: &Visible) -> Vec<(&'static str, Value)> {
    let near = |name: &str| lab.name(&format!("hidde-{name}"));
    let mut calls = Vec::new();
    for (kind, names) in [
        ("container", [near("web"), visible.container.clone()]),
        ("volume", [near("vol"), visible.volume.clone()]),
        ("network", [near("net"), visible.network.clone()]),
        ("image", [near("image:1"), near("image:2")]),
        ("name", [near("image:1"), near("image:2")]),
        ("project", [near("project"), lab.name("nope")]),
    ] {
        for name in names {
            for (_, tool, _, mut arguments) in rows_on(&[kind], &name, &visible.container) {
                if tool == "create_container" {
                    arguments["name"] = json!(lab.name("taken"));
                }
                calls.push((tool, arguments.clone()));
                arguments["confirm"] = json!(name);
                calls.push((tool, arguments));
            }
        }
    }
    let (prefix, project) = (lab.name(""), near("project"));
    let words = [
        ("$PROJECT", &*project),
        ("$TAKEN", &lab.name("taken")),
        ("$NETWORK", &visible.network),
        ("$PORT", &visible.port),
        ("$P", &prefix),
    ];
    calls.extend(calls_of(NEAR, &words));
    for what in ["containers", "images", "networks", "volumes", "build_cache"] {
        calls.push(("prune", json!({"what": what, "all": true})));
    }
    calls.push(("get_container", json!({"container": visible.hidden_id})));
    calls.extend(LISTS.map(|tool| (tool, json!({}))));
    calls
}

/// Removes a container that may not exist.
async fn remove(lab: &Lab, name: &str) {
    let options = RemoveContainerOptionsBuilder::new().force(true).build();
    let _ = lab.docker.remove_container(name, Some(options)).await;
}

#[tokio::test]
async fn no_tool_resource_or_prompt_mentions_a_hidden_object() {
    let Some(lab) = lab().await else { return };
    let visible = plant(&lab).await;
    let pattern = lab.name("hidden-*");
    let deny = format!("name={pattern}");
    let bounded = lab_with(&[("DOCKER_MCP_DENY", &deny)]).await.unwrap();
    let hidden = lab.name("hidden-");
    let taken = lab.name("taken");
    for (tool, arguments) in calls(&lab, &visible) {
        if tool == "create_container" {
            remove(&lab, &taken).await;
        }
        let mut call = json!({"name": tool, "arguments": arguments});
        for _ in 0..2 {
            let answer = post(&bounded, "tools/call", call.clone()).await;
            assert_lacks(&answer.body, &hidden);
            if !confirms(&answer.json()["result"], &mut call["arguments"]) {
                break;
            }
        }
    }
    bounded.wait_for_status("online").await;
    let listed = bounded.result("resources/list", json!({})).await;
    assert_lacks(&listed, &hidden);
    let web = lab.name("hidden-web");
    fails_with!(bounded, "diagnose_container", {"container": web}, "not accessible");
    for end in ["", "/logs", "/stats"] {
        let uri = json!({"uri": format!("docker://containers/{web}{end}")});
        bounded.error("resources/read", uri).await;
    }
    let prompt = json!({"name": "troubleshoot_container", "arguments": {"container": web}});
    bounded.error("prompts/get", prompt).await;
    let project = lab.name("hidden-project");
    for (_, tool, _, arguments) in rows_on(&["project"], &project, "").into_iter().take(2) {
        fails_with!(bounded, tool, arguments, "There is no compose project");
    }
}
