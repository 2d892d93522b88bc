//! What the operator has forbidden, and what nobody may do unless the operator allows it.

use std::fs;

use serde_json::{Value, json};

use super::super::super::{SERVER, lab::Lab};
use super::talk::Talk;
use super::{call, fail, lab, lab_with, succeed};
use crate::harness::{binary, real};

/// Options that reach out of a container.
fn dangerous() -> Vec<Value> {
    vec![
        json!({"privileged": true}),
        json!({"network": "host"}),
        json!({"network": "container:web"}),
        json!({"pid": "host"}),
        json!({"ipc": "host"}),
        json!({"pid": "container:web"}),
        json!({"cap_add": ["SYS_ADMIN"]}),
        json!({"cap_add": ["all"]}),
        json!({"mounts": ["/:/host"]}),
        json!({"mounts": ["/:/host:ro"]}),
        json!({"mounts": ["//:/host"]}),
        json!({"mounts": ["/srv/..:/host"]}),
        json!({"mounts": ["/etc:/x"]}),
        json!({"mounts": ["/var/run/docker.sock:/var/run/docker.sock"]}),
        json!({"mounts": ["/run:/run"]}),
    ]
}

#[tokio::test]
async fn containers_that_reach_the_host_are_refused() {
    let Some(lab) = lab().await else { return };
    for options in dangerous() {
        let name = lab.name("bad");
        let mut arguments = json!({"image": "busybox:test", "name": name, "command": ["true"]});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(options.as_object().unwrap().clone());
        let refused = fail(&lab, "create_container", arguments).await;
        assert!(
            refused.contains("does not create containers with"),
            "{options}: {refused}"
        );
        assert!(
            lab.docker.inspect_container(&name, None).await.is_err(),
            "{options}"
        );
    }
    let mounts = ["./x:/y", "x:y", "x:/y:ro:z", "..:/x"];
    for mount in mounts {
        let arguments = json!({"image": "busybox:test", "mounts": [mount]});
        let params = json!({"name": "create_container", "arguments": arguments});
        let error = lab.server.error("tools/call", params).await;
        assert_eq!(error["code"], -32602, "{mount}: {error}");
    }
}

#[tokio::test]
async fn a_policy_file_makes_exceptions_and_no_more() {
    let dir = std::env::temp_dir().join(format!("mcp-{}", uuid::Uuid::new_v4().simple()));
    fs::create_dir_all(dir.join("data")).unwrap();
    let policy = dir.join("policy.json");
    let data = dir.join("data");
    let json = json!({"create": {"binds": [data], "capabilities": ["NET_ADMIN"]}});
    fs::write(&policy, json.to_string()).unwrap();
    let Some(mut lab) = lab_with(&[("DOCKER_MCP_POLICY", policy.to_str().unwrap())]).await else {
        return;
    };
    let name = lab.adopt("ok");
    let arguments = json!({"image": "busybox:test", "name": name, "command": ["sh", "-c", "echo x > /x/y"],
        "mounts": [format!("{}:/x", data.display())], "cap_add": ["net_admin"]});
    let created = succeed(&lab, "create_container", arguments).await;
    assert_eq!(created["exit_code"], 0, "{created}");
    for options in dangerous() {
        let mut arguments = json!({"image": "busybox:test", "name": lab.name("bad")});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(options.as_object().unwrap().clone());
        fail(&lab, "create_container", arguments).await;
    }
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_policy_that_is_not_understood_does_not_start() {
    let dir = std::env::temp_dir().join(format!("mcp-{}", uuid::Uuid::new_v4().simple()));
    fs::create_dir_all(&dir).unwrap();
    let file = dir.join("policy.json");
    fs::write(&file, r#"{"only_craeted": true}"#).unwrap();
    for args in [
        ["--policy", file.to_str().unwrap()],
        ["--policy", "/nowhere"],
        ["--deny", "web"],
    ] {
        let mut command = std::process::Command::new(binary(SERVER));
        let output = command
            .args(["--port", "0"])
            .args(args)
            .env_clear()
            .output()
            .unwrap();
        assert!(!output.status.success(), "{args:?}");
    }
    fs::remove_dir_all(&dir).unwrap();
}

/// The tools that take a container, with what else they need.
fn on(container: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("get_container", json!({"container": container})),
        ("get_container_logs", json!({"container": container})),
        ("get_container_stats", json!({"container": container})),
        ("diagnose_container", json!({"container": container})),
        (
            "wait_container",
            json!({"container": container, "timeout_seconds": 1}),
        ),
        (
            "follow_container_logs",
            json!({"container": container, "seconds": 1}),
        ),
        (
            "copy_from_container",
            json!({"container": container, "path": "/"}),
        ),
        ("start_container", json!({"container": container})),
        ("stop_container", json!({"container": container})),
        ("restart_container", json!({"container": container})),
        ("pause_container", json!({"container": container})),
        (
            "kill_container",
            json!({"container": container, "confirm": container}),
        ),
        (
            "update_container",
            json!({"container": container, "cpus": 1.0}),
        ),
        (
            "remove_container",
            json!({"container": container, "force": true, "confirm": container}),
        ),
        (
            "copy_to_container",
            json!({"container": container, "path": "/x", "text": ""}),
        ),
        (
            "execute_command",
            json!({"container": container, "command": ["true"]}),
        ),
        (
            "connect_network",
            json!({"container": container, "network": "none"}),
        ),
        (
            "disconnect_network",
            json!({"container": container, "network": "bridge", "confirm": container}),
        ),
    ]
}

/// How many of [`on`] only look.
const READING: usize = 7;

#[tokio::test]
async fn what_is_out_of_bounds_is_neither_seen_nor_touched() {
    let Some(mut lab) = lab().await else { return };
    let secret = lab.run("secret", &["sleep", "600"], json!({})).await;
    let marked = lab
        .run(
            "marked",
            &["sleep", "600"],
            json!({"Labels": {"protected": "yes"}}),
        )
        .await;
    let free = lab.run("free", &["sleep", "600"], json!({})).await;
    let deny = format!("name={secret},label=protected");
    let env = [
        ("MCP_TOOLSETS", "all"),
        ("DOCKER_MCP_DENY", &*deny),
        ("DOCKER_MCP_ALLOW_EXEC", "1"),
    ];
    let denying = Lab::at(real::docker().unwrap(), &env).await;
    for container in [&secret, &marked] {
        for (tool, arguments) in on(container) {
            let refused = fail(&denying.server, tool, arguments).await;
            assert!(refused.contains("out of bounds"), "{tool}: {refused}");
        }
        assert_eq!(lab.state(container).await, "running");
    }
    let listed = succeed!(denying, "list_containers", {"name": lab.name(""), "all": true});
    assert_eq!(
        listed["containers"].as_array().unwrap().len(),
        1,
        "{listed}"
    );
    // Not by another name either.
    fail!(denying, "update_container", {"container": free, "new_name": secret});

    let allow = format!("name={free}");
    let env = [
        ("MCP_TOOLSETS", "all"),
        ("DOCKER_MCP_ALLOW", allow.as_str()),
    ];
    let allowing = Lab::at(real::docker().unwrap(), &env).await;
    succeed!(allowing, "get_container", {"container": free});
    let refused = fail!(allowing, "get_container", {"container": secret});
    assert!(refused.contains("out of bounds"), "{refused}");
    let arguments = json!({"image": "busybox:test", "name": lab.name("other")});
    let refused = fail(&allowing.server, "create_container", arguments).await;
    assert!(refused.contains("out of bounds"), "{refused}");
}

#[tokio::test]
async fn images_are_fenced_too() {
    let Some(lab) = lab_with(&[("DOCKER_MCP_DENY", "image=busybox:test")]).await else {
        return;
    };
    for (tool, arguments) in [
        ("get_image", json!({"image": "busybox:test"})),
        ("pull_image", json!({"image": "busybox:test"})),
        (
            "tag_image",
            json!({"image": "busybox:test", "new_name": "x:1"}),
        ),
        (
            "remove_image",
            json!({"image": "busybox:test", "confirm": "busybox:test"}),
        ),
        ("create_container", json!({"image": "busybox:test"})),
    ] {
        let refused = fail(&lab, tool, arguments).await;
        assert!(refused.contains("out of bounds"), "{tool}: {refused}");
    }
    let listed = succeed(&lab, "list_images", json!({"name": "busybox:test"})).await;
    assert_eq!(listed["images"], json!([]));
}

#[tokio::test]
async fn only_what_was_created_here_is_changed() {
    let Some(mut lab) = lab_with(&[
        ("DOCKER_MCP_ONLY_CREATED", "1"),
        ("DOCKER_MCP_ALLOW_EXEC", "1"),
    ])
    .await
    else {
        return;
    };
    let theirs = lab.run("theirs", &["sleep", "600"], json!({})).await;
    for (at, (tool, arguments)) in on(&theirs).into_iter().enumerate() {
        let result = call(&lab, tool, arguments).await;
        let text = result["content"][0]["text"].as_str().unwrap();
        let refused = result["isError"] == true && text.contains("was not created by this server");
        assert_eq!(refused, at >= READING, "{tool}: {text}");
    }
    assert_eq!(lab.state(&theirs).await, "running");
    let ours = lab.adopt("ours");
    let arguments = json!({"image": "busybox:test", "name": ours, "command": ["sleep", "600"]});
    succeed(&lab, "create_container", arguments).await;
    succeed!(lab, "stop_container", {"container": ours, "timeout_seconds": 0});
    succeed!(lab, "remove_container", {"container": ours, "confirm": ours});
    let refused = fail!(lab, "remove_image", {"image": "busybox:test", "confirm": "busybox:test"});
    assert!(refused.contains("was not created"), "{refused}");
}

#[tokio::test]
async fn nothing_is_lost_without_destruction() {
    let dir = std::env::temp_dir().join(format!("mcp-{}", uuid::Uuid::new_v4().simple()));
    fs::create_dir_all(&dir).unwrap();
    let policy = dir.join("policy.json");
    fs::write(&policy, r#"{"no_destructive": true}"#).unwrap();
    // The file says it as well as the variable.
    for (name, value) in [
        ("DOCKER_MCP_NO_DESTRUCTIVE", "1"),
        ("DOCKER_MCP_POLICY", policy.to_str().unwrap()),
    ] {
        let env = [(name, value), ("DOCKER_MCP_ALLOW_EXEC", "1")];
        let Some(mut lab) = lab_with(&env).await else {
            return;
        };
        let name = lab.run("web", &["sleep", "600"], json!({})).await;
        // What could do nothing is not offered.
        let listed = lab.server.result("tools/list", json!({})).await;
        let listed: Vec<_> = listed["tools"].as_array().unwrap().iter().collect();
        let destructive = listed
            .iter()
            .filter(|tool| tool["annotations"]["destructiveHint"] == true)
            .map(|tool| tool["name"].as_str().unwrap());
        assert_eq!(
            destructive.collect::<Vec<_>>(),
            ["copy_to_container", "prune"]
        );
        for (tool, arguments) in [
            ("stop_container", json!({"container": name})),
            ("restart_container", json!({"container": name})),
            (
                "remove_container",
                json!({"container": name, "force": true, "confirm": name}),
            ),
            (
                "execute_command",
                json!({"container": name, "command": ["true"]}),
            ),
            (
                "remove_image",
                json!({"image": "busybox:test", "confirm": "busybox:test"}),
            ),
        ] {
            let params = json!({"name": tool, "arguments": arguments});
            let error = lab.server.error("tools/call", params).await;
            assert_eq!(error["code"], -32602, "{tool}: {error}");
        }
        assert_eq!(lab.state(&name).await, "running");
        // Of the others, what would lose something is refused.
        let copy = json!({"container": name, "path": "/tmp/new", "text": "one"});
        succeed(&lab, "copy_to_container", copy.clone()).await;
        let mut again = copy;
        again["confirm"] = json!("/tmp/new");
        succeed(&lab, "prune", json!({"what": "containers"})).await;
        let removal = json!({"what": "containers", "apply": true, "confirm": "containers"});
        for (tool, arguments) in [("copy_to_container", again), ("prune", removal)] {
            let refused = fail(&lab, tool, arguments).await;
            assert!(refused.contains("no-destructive"), "{tool}: {refused}");
        }
        succeed(&lab, "pause_container", json!({"container": name})).await;
    }
    fs::remove_dir_all(&dir).unwrap();
}

#[tokio::test]
async fn the_server_does_not_end_itself() {
    let Some(mut lab) = lab().await else { return };
    let own = lab.run("own", &["sleep", "600"], json!({})).await;
    let id = lab
        .docker
        .inspect_container(&own, None)
        .await
        .unwrap()
        .id
        .unwrap();
    // As in that container: its hostname is the beginning of its id.
    let script = format!(
        "echo {} > /proc/sys/kernel/hostname && exec \"$0\" --stdio",
        &id[..12]
    );
    let mut command = tokio::process::Command::new("unshare");
    command
        .args(["--uts", "sh", "-c", &script])
        .arg(binary(SERVER));
    let env = [("DOCKER_MCP_ALLOW_EXEC", "1")];
    let mut talk = Talk::with(command, &lab.host, &env).await;
    for (tool, arguments) in on(&own).into_iter().skip(READING) {
        let id = talk.start(tool, arguments).await;
        let text = talk.answer(id).await.to_string();
        assert!(text.contains("this server runs in"), "{tool}: {text}");
    }
    assert_eq!(lab.state(&own).await, "running");
}
