//! Questions to the user before a loss of data, with clients that support elicitation.

use bollard::models::ContainerConfig;
use bollard::query_parameters::{CommitContainerOptionsBuilder, RemoveImageOptions};
use serde_json::{Value, json};

use super::super::super::lab::{Folder, Lab, merged};
use super::stdio_session::StdioSession;
use super::{call, cli_lab, lab, succeed};
use crate::harness::{assert_contains, real};

/// The objects that the asking tools would stop, remove or overwrite.
async fn plant(lab: &mut Lab) -> Folder {
    let project = json!({"com.docker.compose.config-hash": "1", "com.docker.compose.project": lab.name("project"),
        "com.docker.compose.service": "web", "com.docker.compose.container-number": "1",
        "com.docker.compose.oneoff": "False"});
    succeed!(lab, "create_network", {"network": lab.name("mesh")});
    let options = json!({"StopTimeout": 0, "HostConfig": {"NetworkMode": lab.name("mesh")}});
    for name in ["killed", "removed", "replaced", "written", "left"] {
        lab.run(name, &["sleep", "600"], options.clone()).await;
    }
    lab.run(
        "down",
        &["sleep", "600"],
        merged(options.clone(), json!({"Labels": project})),
    )
    .await;
    let once = merged(options, json!({"HostConfig": {"AutoRemove": true}}));
    lab.run("stopped", &["sleep", "600"], once).await;
    for name in ["tagged", "built", "untagged", "pushed"] {
        let container = lab.name("left");
        let name = lab.name(name);
        let commit = CommitContainerOptionsBuilder::new().container(&container);
        let commit = commit.repo(&name).tag("1").comment(&name).build();
        let config: ContainerConfig = serde_json::from_value(json!({})).unwrap();
        lab.docker.commit_container(commit, config).await.unwrap();
    }
    succeed!(lab, "copy_to_container", {"container": lab.name("written"), "path": "/note", "text": "old"});
    succeed!(lab, "create_network", {"network": lab.name("network")});
    for name in ["volume", "pruned"] {
        succeed!(lab, "create_volume", {"volume": lab.name(name)});
    }
    let folder = Folder::new();
    folder.write(
        "compose.yaml",
        "services: {web: {image: 'busybox:test', command: sleep 600}}",
    );
    folder
}

/// Calls of all tools that ask, each with the `confirm` that would do for a client that cannot ask.
fn asking_calls(lab: &Lab, folder: &Folder) -> Vec<(&'static str, Value)> {
    let container = |name: &str| json!({"container": lab.name(name), "confirm": lab.name(name)});
    let image = |name: &str| format!("{}:1", lab.name(name));
    let project = json!({"project": lab.name("project"), "confirm": lab.name("project")});
    let file = json!({"path": "/note", "text": "x", "confirm": "/note"});
    let dockerfile = "FROM busybox:test\nLABEL a=b";
    let up = json!({"directory": folder.path()});
    vec![
        ("kill_container", container("killed")),
        (
            "remove_container",
            merged(container("removed"), json!({"force": true})),
        ),
        (
            "recreate_container",
            merged(container("replaced"), json!({"timeout_seconds": 30})),
        ),
        ("copy_to_container", merged(container("written"), file)),
        ("stop_container", container("stopped")),
        (
            "disconnect_network",
            merged(container("left"), json!({"network": lab.name("mesh")})),
        ),
        (
            "tag_image",
            json!({"image": "busybox:test", "new_name": image("tagged"), "confirm": image("tagged")}),
        ),
        (
            "build_image",
            json!({"dockerfile": dockerfile, "tag": image("built"), "confirm": image("built")}),
        ),
        (
            "remove_image",
            json!({"image": image("untagged"), "confirm": image("untagged")}),
        ),
        (
            "push_image",
            json!({"image": image("pushed"), "confirm": image("pushed")}),
        ),
        (
            "remove_network",
            json!({"network": lab.name("network"), "confirm": lab.name("network")}),
        ),
        (
            "remove_volume",
            json!({"volume": lab.name("volume"), "confirm": lab.name("volume")}),
        ),
        (
            "prune",
            json!({"what": "volumes", "all": true, "apply": true, "confirm": "volumes"}),
        ),
        ("compose_up", merged(project.clone(), up)),
        ("compose_down", project),
    ]
}

/// The state of the objects of this test.
async fn state_of_all(lab: &Lab) -> String {
    let mut all = Vec::new();
    for (tool, arguments) in [
        (
            "list_containers",
            json!({"all": true, "name": lab.prefix, "limit": 500}),
        ),
        ("list_networks", json!({"network": lab.name("mesh")})),
        (
            "copy_from_container",
            json!({"container": lab.name("written"), "path": "/note"}),
        ),
    ] {
        let mut shown = succeed(lab, tool, arguments).await;
        for row in shown["containers"].as_array_mut().into_iter().flatten() {
            // Its age.
            row["status"] = Value::Null;
        }
        all.push(shown.to_string());
    }
    for name in ["tagged", "built", "untagged", "pushed"] {
        let image = format!("{}:1", lab.name(name));
        let found = lab.docker.inspect_image(&image).await;
        all.push(format!("{:?}", found.ok().map(|image| image.id)));
    }
    for name in ["volume", "pruned"] {
        let found = call(lab, "list_volumes", json!({"volume": lab.name(name)})).await;
        all.push(found["isError"].to_string());
    }
    let found = call(
        lab,
        "list_networks",
        json!({"network": lab.name("network")}),
    )
    .await;
    all.push(found["isError"].to_string());
    all.join("\n")
}

/// While the client can ask, only the user's own yes counts: not a `confirm` of the model.
#[tokio::test]
async fn only_the_users_yes_lets_a_tool_lose_data() {
    let Some(mut lab) = cli_lab(&[]).await else {
        return;
    };
    let folder = plant(&mut lab).await;
    lab.adopt("project-web-1");
    let compose = real::compose_dir().unwrap_or_default();
    let rule = format!("name={}*,name=busybox", lab.prefix);
    let env = [
        ("PATH", &*format!("{compose}:/usr/bin:/bin")),
        ("DOCKER_MCP_PROJECT_DIR", folder.str()),
        ("DOCKER_MCP_ALLOW", &rule),
    ];
    let calls = asking_calls(&lab, &folder);
    let listed = lab.server.result("tools/list", json!({})).await;
    for tool in listed["tools"].as_array().unwrap() {
        let asks = tool["inputSchema"]["properties"].get("confirm").is_some();
        let has_row = calls.iter().any(|(name, _)| tool["name"] == *name);
        assert_eq!(asks, has_row, "{}", tool["name"]);
    }
    let mut session = StdioSession::open(&lab.host, &env).await;
    for (tool, arguments) in calls {
        let is_compose = tool.starts_with("compose_up");
        if is_compose && compose.is_empty() {
            continue;
        }
        let before = state_of_all(&lab).await;
        for answer in [
            json!({"action": "decline"}),
            json!({"action": "cancel"}),
            json!({"action": "accept", "content": {"confirm": false}}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept"}),
        ] {
            let id = session.start(tool, arguments.clone()).await;
            session.reply(answer.clone()).await;
            let refused = session.answer(id).await;
            let is_refused = refused["result"]["isError"] == true || refused["error"].is_object();
            assert!(is_refused, "{tool} {answer}: {refused}");
            assert_eq!(state_of_all(&lab).await, before, "{tool} {answer}");
        }
        let id = session.start(tool, arguments).await;
        let accept = json!({"action": "accept", "content": {"confirm": true}});
        session.reply(accept).await;
        let done = session.answer(id).await;
        // No registry takes it.
        let expected = tool == "push_image";
        assert_eq!(done["result"]["isError"], expected, "{tool}: {done}");
        assert_ne!(
            state_of_all(&lab).await == before,
            !expected,
            "{tool}: {done}"
        );
    }
    for name in ["tagged", "built", "pushed"] {
        let image = format!("{}:1", lab.name(name));
        let removed = lab
            .docker
            .remove_image(&image, None::<RemoveImageOptions>, None);
        removed.await.unwrap();
    }
    for name in ["killed", "replaced", "written", "left"] {
        lab.remove(&lab.name(name)).await;
    }
    lab.docker.remove_network(&lab.name("mesh")).await.unwrap();
}

#[tokio::test]
async fn question_contains_the_preview() {
    let Some(lab) = lab().await else { return };
    let volume = lab.name("data");
    let rule = format!("name={volume}");
    let mut session = StdioSession::open(&lab.host, &[("DOCKER_MCP_ALLOW", &rule)]).await;
    let id = session
        .start("create_volume", json!({"volume": volume}))
        .await;
    session.answer(id).await;
    let arguments = json!({"what": "volumes", "all": true, "apply": true});
    let id = session.start("prune", arguments.clone()).await;
    let question = session.reply(json!({"action": "decline"})).await;
    assert_contains(&question, "1 unused volumes");
    assert_contains(&question, &volume);
    assert_eq!(session.answer(id).await["result"]["isError"], true);
    let id = session.start("prune", arguments).await;
    let accept = json!({"action": "accept", "content": {"confirm": true}});
    session.reply(accept).await;
    let answer = session.answer(id).await;
    assert_has!(answer, {"result": {"structuredContent": {"items": [volume]}}});
}
