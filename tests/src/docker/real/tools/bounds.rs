//! The operator's bounds hold for everything that a call touches, under each of its names: a table of
//! tools, objects and options.

use std::collections::BTreeSet;

use bollard::query_parameters::{CommitContainerOptionsBuilder, RemoveImageOptions};
use serde_json::{Value, json};

use super::super::super::call;
use super::super::super::lab::{Folder, Lab, merged};
use super::policy::{READING, calls_on};
use super::{fail, lab, lab_with, refusal, succeed};
use crate::harness::assert_lacks;
use crate::surface;

/// The effect of a call on the object that it names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Use {
    /// Shows or uses it.
    Reads,
    /// Changes it, and loses nothing.
    Changes,
    /// May lose data of it.
    Loses,
}

/// Tools that name no object; what they list is checked by [`lists_show_no_hidden_object`].
const LISTS: [&str; 7] = [
    "list_containers",
    "list_images",
    "list_events",
    "get_system_info",
    "list_compose_projects",
    "diagnose_host",
    "prune",
];
/// Tools of compose projects, which have tests of their own.
const COMPOSE: &str = "compose_up compose_down compose_config compose_service";
/// Arguments that name no object of the engine.
const NO_OBJECTS: [&str; 2] = ["labels", "network of create_network"];

/// Objects that another program has made, by all names that they have.
struct Theirs {
    container: Vec<String>,
    volume: Vec<String>,
    network: Vec<String>,
    image: Vec<String>,
}

/// The tools that take a volume, a network or an image: `@` is its name.
pub(super) fn rows() -> Vec<(&'static str, &'static str, Use, Value)> {
    use Use::{Loses, Reads};
    let new = json!({"image": "busybox:test", "only_create": true, "auto_remove": true});
    let with = |more| merged(new.clone(), more);
    let own = |more| merged(json!({"container": "OWN"}), more);
    vec![
        ("volume", "list_volumes", Reads, json!({"volume": "@"})),
        ("volume", "create_volume", Reads, json!({"volume": "@"})),
        ("volume", "remove_volume", Loses, json!({"volume": "@"})),
        (
            "volume",
            "create_container",
            Reads,
            with(json!({"mounts": ["@:/d:ro"]})),
        ),
        (
            "volume",
            "create_container",
            Loses,
            with(json!({"mounts": ["@:/d"]})),
        ),
        ("network", "list_networks", Reads, json!({"network": "@"})),
        ("network", "remove_network", Loses, json!({"network": "@"})),
        (
            "network",
            "create_container",
            Reads,
            with(json!({"network": "@"})),
        ),
        (
            "network",
            "connect_network",
            Reads,
            own(json!({"network": "@"})),
        ),
        (
            "network",
            "disconnect_network",
            Reads,
            own(json!({"network": "@"})),
        ),
        ("image", "get_image", Reads, json!({"image": "@"})),
        ("image", "remove_image", Loses, json!({"image": "@"})),
        (
            "image",
            "create_container",
            Reads,
            with(json!({"image": "@"})),
        ),
        (
            "image",
            "tag_image",
            Reads,
            json!({"image": "@", "new_name": "mcp-test-never:2"}),
        ),
        ("image", "push_image", Reads, json!({"image": "@"})),
        ("name", "pull_image", Loses, json!({"image": "@"})),
        (
            "name",
            "tag_image",
            Loses,
            json!({"image": "busybox:test", "new_name": "@"}),
        ),
        (
            "name",
            "build_image",
            Loses,
            json!({"dockerfile": "FROM busybox:test", "tag": "@"}),
        ),
    ]
}

/// All calls of the table, with the object's name in each of its forms.
fn calls(theirs: &Theirs, own: &str) -> Vec<(&'static str, &'static str, Use, Value)> {
    let mut calls = Vec::new();
    for (kind, tool, what, arguments) in rows() {
        let names = match kind {
            "volume" => &theirs.volume[..],
            "network" => &theirs.network,
            "name" => &theirs.image[..1],
            _ => &theirs.image,
        };
        for name in names {
            let text = arguments.to_string().replace('@', name).replace("OWN", own);
            calls.push((kind, tool, what, serde_json::from_str(&text).unwrap()));
        }
    }
    for name in &theirs.container {
        for (at, (tool, arguments)) in calls_on(name).into_iter().enumerate() {
            let what = match tool {
                _ if at < READING => Use::Reads,
                "start_container" | "connect_network" | "copy_to_container" => Use::Changes,
                _ => Use::Loses,
            };
            calls.push(("container", tool, what, arguments));
        }
    }
    calls
}

/// An image, a volume, a network and a container of another program.
async fn plant(lab: &mut Lab) -> Theirs {
    let name = lab.name("secret");
    let base = lab.create("base", &["true"], json!({})).await;
    let commit = CommitContainerOptionsBuilder::new().container(&base);
    let picture = lab.name("picture");
    let commit = commit.repo(&picture).tag("1").build();
    let config: bollard::models::ContainerConfig = serde_json::from_value(json!({})).unwrap();
    let image = lab.docker.commit_container(commit, config).await;
    let image = image.unwrap().id;
    let more = json!({"Image": image, "Labels": {"com.docker.compose.config-hash": "1", "com.docker.compose.project": name}});
    let container = lab.run("secret", &["sleep", "600"], more).await;
    let request =
        serde_json::from_value::<bollard::models::VolumeCreateRequest>(json!({"Name": name}));
    lab.docker.create_volume(request.unwrap()).await.unwrap();
    let request = serde_json::from_value(json!({"Name": name})).unwrap();
    let network = lab.docker.create_network(request).await.unwrap().id;
    let details = lab
        .docker
        .inspect_container(&container, None)
        .await
        .unwrap();
    let id = details.id.unwrap();
    let hex = image.trim_start_matches("sha256:").to_owned();
    Theirs {
        container: vec![container, id.clone(), id[..12].to_owned()],
        volume: vec![name.clone()],
        network: vec![name.clone(), network],
        image: vec![
            format!("{picture}:1"),
            format!("docker.io/library/{picture}:1"),
            image,
            hex[..12].to_owned(),
        ],
    }
}

async fn uproot(lab: &Lab, theirs: &Theirs) {
    for container in [&theirs.container[0], &lab.name("base")] {
        lab.remove(container).await;
    }
    let none = None::<bollard::query_parameters::RemoveVolumeOptions>;
    lab.docker
        .remove_volume(&theirs.volume[0], none)
        .await
        .unwrap();
    lab.docker.remove_network(&theirs.network[0]).await.unwrap();
    let image = lab
        .docker
        .remove_image(&theirs.image[0], None::<RemoveImageOptions>, None);
    image.await.unwrap();
}

#[tokio::test]
async fn bounds_hold_for_every_tool_and_every_name() {
    let Some(mut lab) = lab().await else { return };
    let theirs = plant(&mut lab).await;
    let own = lab.adopt("own");
    succeed!(lab, "create_container", {"image": "busybox:test", "name": own, "command": ["sleep", "600"]});
    let name = &theirs.volume[0];
    let deny = format!("name={name}");
    let allow = format!("name={own}");
    // Builds would be refused for another reason.
    let dir = Folder::new();
    let policy = dir.write("policy.json", r#"{"create": {"host_namespaces": true}}"#);
    for (option, value) in [
        ("DOCKER_MCP_DENY", &*deny),
        ("DOCKER_MCP_ALLOW", &allow),
        ("DOCKER_MCP_ONLY_CREATED", "1"),
        ("DOCKER_MCP_NO_DESTRUCTIVE", "1"),
        ("MCP_READ_ONLY", "1"),
    ] {
        let env = [
            (option, value),
            ("DOCKER_MCP_ALLOW_EXEC", "1"),
            ("DOCKER_MCP_POLICY", policy.to_str().unwrap()),
        ];
        let bounded = lab_with(&env).await.unwrap();
        for (kind, tool, what, arguments) in calls(&theirs, &own) {
            let is_refused = match option {
                // Images are visible.
                "DOCKER_MCP_DENY" | "DOCKER_MCP_ALLOW" => !matches!(kind, "image" | "name"),
                "DOCKER_MCP_ONLY_CREATED" => what != Use::Reads,
                "DOCKER_MCP_NO_DESTRUCTIVE" => what == Use::Loses,
                _ => what != Use::Reads,
            };
            // What is allowed is not done here: the objects are still needed.
            if !is_refused {
                continue;
            }
            let text = refusal(&bounded, tool, &arguments).await;
            let reasons: &[&str] = match option {
                "DOCKER_MCP_DENY" | "DOCKER_MCP_ALLOW" => &["not accessible"],
                "DOCKER_MCP_ONLY_CREATED" => &["was not created by this server"],
                "DOCKER_MCP_NO_DESTRUCTIVE" => &["--no-destructive", "not found", "Unknown tool"],
                _ => &["not found", "Unknown tool"],
            };
            let expected = reasons.iter().any(|reason| text.contains(reason));
            assert!(expected, "{option} {tool} {arguments}: {text}");
        }
    }
    assert_eq!(lab.state(&theirs.container[0]).await, "running");
    uproot(&lab, &theirs).await;
}

#[tokio::test]
async fn lists_show_no_hidden_object() {
    let Some(mut lab) = lab().await else { return };
    let theirs = plant(&mut lab).await;
    let name = &theirs.volume[0];
    let deny = format!("name={name}");
    let bounded = lab_with(&[("DOCKER_MCP_DENY", &deny)]).await.unwrap();
    let listed = json!({"all": true, "name": lab.name("")});
    let shown = succeed(&bounded, "list_containers", listed).await;
    let [shown] = shown["containers"].as_array().unwrap().as_slice() else {
        panic!("{shown}");
    };
    assert_eq!(shown["name"], lab.name("base"));
    let kinds = ["containers", "networks", "volumes"];
    for what in kinds {
        let shown = succeed!(bounded, "prune", {"what": what, "all": true}).to_string();
        assert_lacks(&shown, name);
    }
    for tool in LISTS[..6].iter().chain(&["list_networks", "list_volumes"]) {
        assert_lacks(&call(&bounded, tool, json!({})).await.to_string(), name);
    }
    for tool in ["get_container_logs", "compose_down"] {
        let text = fail(&bounded, tool, json!({"project": name})).await;
        assert!(text.contains("There is no compose project"), "{text}");
    }
    uproot(&lab, &theirs).await;
}

/// The data of another program's volume, which a container of this server must not write to either.
#[tokio::test]
async fn volumes_of_others_are_neither_read_nor_written_through_a_container() {
    let Some(mut lab) = lab().await else { return };
    let theirs = plant(&mut lab).await;
    let volume = &theirs.volume[0];
    let user = lab.adopt("user");
    succeed!(lab, "create_container", {"image": "busybox:test", "name": user,
        "command": ["sleep", "600"], "mounts": [format!("{volume}:/d")]});
    let deny = format!("name={volume}");
    let exec = ("DOCKER_MCP_ALLOW_EXEC", "1");
    let denying = lab_with(&[("DOCKER_MCP_DENY", &deny), exec]).await.unwrap();
    let only_created = lab_with(&[("DOCKER_MCP_ONLY_CREATED", "1"), exec])
        .await
        .unwrap();
    let calls = [
        (
            "execute_command",
            json!({"container": user, "command": ["ls", "/d"]}),
        ),
        (
            "copy_to_container",
            json!({"container": user, "path": "/d/x", "text": "x"}),
        ),
        (
            "copy_from_container",
            json!({"container": user, "path": "/d"}),
        ),
    ];
    for (tool, arguments) in calls {
        fails_with!(denying.server, tool, arguments, "not accessible");
        if tool != "copy_from_container" {
            fails_with!(
                only_created.server,
                tool,
                arguments,
                "was not created by this server"
            );
        }
    }
    // Its own volume, which the engine would create without a mark.
    let (other, own) = (lab.adopt("other"), lab.name("own"));
    for _ in 0..2 {
        succeed!(only_created, "create_container", {"image": "busybox:test", "name": other,
            "command": ["touch", "/d/x"], "mounts": [format!("{own}:/d")]});
        succeed!(only_created, "remove_container", {"container": other, "confirm": other});
    }
    succeed!(only_created, "remove_volume", {"volume": own, "confirm": own});
    lab.remove(&user).await;
    uproot(&lab, &theirs).await;
}

/// A new tool has rows in the table.
#[test]
fn every_tool_has_a_row() {
    let tools = surface::tools("docker-mcp-server", "all");
    let in_calls = calls_on("x").into_iter();
    let in_calls = in_calls.map(|(tool, _)| (tool.to_owned(), "container".to_owned()));
    let mut covered: BTreeSet<(String, String)> = in_calls.collect();
    for (_, tool, _, arguments) in rows() {
        let named = arguments.as_object().unwrap().iter();
        for (argument, _) in named.filter(|(_, value)| value.to_string().contains('@')) {
            covered.insert((tool.to_owned(), argument.clone()));
        }
    }
    for tool in &tools {
        let name = tool["name"].as_str().unwrap();
        if LISTS.contains(&name) || COMPOSE.split(' ').any(|it| it == name) {
            continue;
        }
        let has_row = covered.iter().any(|(tool, _)| tool == name);
        assert!(
            has_row || name == "create_network",
            "{name} has no row in rows()"
        );
        for argument in "container containers image network networks volume volumes mounts tag \
            new_name"
            .split_whitespace()
        {
            let exists = tool["inputSchema"]["properties"].get(argument).is_some();
            let row = (name.to_owned(), argument.to_owned());
            let is_new = NO_OBJECTS.contains(&&*format!("{argument} of {name}"))
                || tool["inputSchema"]["properties"][argument]["type"] == "boolean"
                || row == ("update_container".to_owned(), "new_name".to_owned());
            assert!(
                !exists || is_new || covered.contains(&row),
                "{row:?} has no row in rows()"
            );
        }
    }
}
