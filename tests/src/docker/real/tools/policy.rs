//! The operator's policy: forbidden calls, and calls that are refused unless the operator allows them.

use std::fs;

use serde_json::{Value, json};

use super::super::super::lab::{Folder, merged};
use super::super::super::{SERVER, invalid};
use super::stdio_session::StdioSession;
use super::{call, fail, lab, lab_with, succeed};
use crate::harness::binary;
use crate::surface;

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
        let arguments = json!({"image": "busybox:test", "name": name, "command": ["true"]});
        let arguments = merged(arguments, options);
        fails_with!(
            lab,
            "create_container",
            arguments,
            "does not create containers with"
        );
        let created = lab.docker.inspect_container(&name, None).await;
        assert!(created.is_err(), "{arguments}");
    }
    for mount in ["./x:/y", "x:y", "x:/y:ro:z", "..:/x"] {
        let arguments = json!({"image": "busybox:test", "mounts": [mount]});
        invalid(&lab, "create_container", arguments).await;
    }
}

#[tokio::test]
async fn policy_file_allows_exceptions_only() {
    let dir = Folder::new();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let json = json!({"create": {"binds": [data], "capabilities": ["NET_ADMIN"]}});
    let policy = dir.write("policy.json", &json.to_string());
    let Some(mut lab) = lab_with(&[("DOCKER_MCP_POLICY", policy.to_str().unwrap())]).await else {
        return;
    };
    let name = lab.adopt("ok");
    let arguments = json!({"image": "busybox:test", "name": name, "command": ["sh", "-c", "echo x > /x/y"],
        "mounts": [format!("{}:/x", data.display())], "cap_add": ["net_admin"]});
    let created = succeed(&lab, "create_container", arguments).await;
    assert_eq!(created["exit_code"], 0, "{created}");
    for options in dangerous() {
        let arguments = json!({"image": "busybox:test", "name": lab.name("bad")});
        fail(&lab, "create_container", merged(arguments, options)).await;
    }
}

/// A container that may write to an allowed directory can make a link in it that leads anywhere.
#[tokio::test]
async fn link_in_an_allowed_directory_is_refused_as_a_bind() {
    let dir = Folder::new();
    let policy = json!({"create": {"binds": [dir.path().join("data")]}}).to_string();
    let policy = dir.write("policy.json", &policy);
    fs::create_dir_all(dir.path().join("data/folder")).unwrap();
    let Some(mut lab) = lab_with(&[("DOCKER_MCP_POLICY", policy.to_str().unwrap())]).await else {
        return;
    };
    let source = |path: &str| format!("{}/data{path}:/w", dir.str());
    let name = lab.adopt("linker");
    succeed!(lab, "create_container", {"image": "busybox:test", "name": name,
        "command": ["ln", "-s", "/", "/w/link"], "mounts": [source("")]});
    assert!(dir.path().join("data/link").is_symlink());
    let thief = lab.adopt("thief");
    let asked = |path: &str| {
        json!({"image": "busybox:test", "name": thief, "command": ["ls", "/w"],
            "mounts": [source(path)]})
    };
    for path in [
        "/link",
        "/link/etc",
        "/folder/../link",
        "/./link",
        "/link/",
        "/link/.",
        "//link//",
    ] {
        let arguments = asked(path);
        fails_with!(
            lab,
            "create_container",
            arguments,
            "this path of the host as a mount"
        );
    }
    let changes = json!({"mounts": [source("/link")]});
    let arguments = json!({"container": name, "changes": changes, "confirm": name});
    fails_with!(
        lab,
        "recreate_container",
        arguments,
        "this path of the host as a mount"
    );
    succeed(&lab, "create_container", asked("/folder/")).await;
}

#[test]
fn server_does_not_start_with_an_invalid_policy() {
    let dir = Folder::new();
    let file = dir.write("policy.json", r#"{"only_craeted": true}"#);
    for args in [
        ["--policy", file.to_str().unwrap()],
        ["--policy", "/nowhere"],
        ["--deny", "web"],
    ] {
        let mut command = std::process::Command::new(binary(SERVER));
        let command = command.args(["--port", "0"]).args(args).env_clear();
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{args:?}");
    }
}

/// Calls of all tools that take a container; the first [`READING`] only read.
pub(super) fn calls_on(container: &str) -> Vec<(&'static str, Value)> {
    let removal = json!({"force": true, "confirm": container});
    let disconnect = json!({"network": "bridge", "confirm": container});
    let calls = [
        ("get_container", json!({})),
        ("get_container_logs", json!({})),
        ("get_container_stats", json!({})),
        ("diagnose_container", json!({})),
        ("wait_container", json!({"timeout_seconds": 1})),
        ("get_container_logs", json!({"follow_seconds": 1})),
        ("copy_from_container", json!({"path": "/"})),
        ("start_container", json!({})),
        ("stop_container", json!({})),
        ("restart_container", json!({})),
        ("pause_container", json!({})),
        ("kill_container", json!({"confirm": container})),
        ("update_container", json!({"cpus": 1.0})),
        ("remove_container", removal),
        ("recreate_container", json!({"confirm": container})),
        ("copy_to_container", json!({"path": "/x", "text": ""})),
        ("execute_command", json!({"command": ["true"]})),
        ("connect_network", json!({"network": "none"})),
        ("disconnect_network", disconnect),
    ];
    let with_container = |(tool, mut arguments): (_, Value)| {
        arguments["container"] = json!(container);
        (tool, arguments)
    };
    calls.map(with_container).into()
}

#[test]
fn every_tool_with_a_container_has_a_row() {
    let tools = surface::tools("docker-mcp-server", "all");
    let rows = calls_on("x");
    for tool in &tools {
        let has_container = tool["inputSchema"]["properties"].get("container").is_some();
        let has_row = rows.iter().any(|(name, _)| tool["name"] == *name);
        assert!(
            has_row || !has_container,
            "{} has no row in calls_on()",
            tool["name"]
        );
    }
}

/// The number of read-only tools in [`calls_on`].
pub(super) const READING: usize = 7;

#[tokio::test]
async fn hidden_containers_are_neither_seen_nor_changed() {
    let Some(mut lab) = lab().await else { return };
    let secret = lab.run("secret", &["sleep", "600"], json!({})).await;
    let labels = json!({"Labels": {"protected": "yes"}});
    let marked = lab.run("marked", &["sleep", "600"], labels).await;
    let free = lab.run("free", &["sleep", "600"], json!({})).await;
    let deny = format!("name={secret},label=protected");
    let env = [("DOCKER_MCP_DENY", &*deny), ("DOCKER_MCP_ALLOW_EXEC", "1")];
    let denying = lab_with(&env).await.unwrap();
    for container in [&secret, &marked] {
        for (tool, arguments) in calls_on(container) {
            fails_with!(denying.server, tool, arguments, "not accessible");
        }
        assert_eq!(lab.state(container).await, "running");
    }
    let listed = succeed!(denying, "list_containers", {"name": lab.name(""), "all": true});
    let count = listed["containers"].as_array().unwrap().len();
    assert_eq!(count, 1, "{listed}");
    // Not by another name either.
    fail!(denying, "update_container", {"container": free, "new_name": secret});

    let allow = format!("name={free}");
    let allowing = lab_with(&[("DOCKER_MCP_ALLOW", &allow)]).await.unwrap();
    succeed!(allowing, "get_container", {"container": free});
    fails_with!(allowing, "get_container", {"container": secret}, "not accessible");
    let arguments = json!({"image": "busybox:test", "name": lab.name("other")});
    fails_with!(
        allowing.server,
        "create_container",
        arguments,
        "not accessible"
    );
}

#[tokio::test]
async fn only_created_protects_other_containers() {
    let env = [
        ("DOCKER_MCP_ONLY_CREATED", "1"),
        ("DOCKER_MCP_ALLOW_EXEC", "1"),
    ];
    let Some(mut lab) = lab_with(&env).await else {
        return;
    };
    let theirs = lab.run("theirs", &["sleep", "600"], json!({})).await;
    for (at, (tool, arguments)) in calls_on(&theirs).into_iter().enumerate() {
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
async fn no_destructive_prevents_data_loss() {
    let dir = Folder::new();
    let policy = dir.write("policy.json", r#"{"no_destructive": true}"#);
    // By the variable, and by the file.
    for (name, value) in [
        ("DOCKER_MCP_NO_DESTRUCTIVE", "1"),
        ("DOCKER_MCP_POLICY", policy.to_str().unwrap()),
    ] {
        let env = [(name, value), ("DOCKER_MCP_ALLOW_EXEC", "1")];
        let Some(mut lab) = lab_with(&env).await else {
            return;
        };
        let name = lab.run("web", &["sleep", "600"], json!({})).await;
        // Tools that can only lose data are not listed.
        let listed = lab.server.result("tools/list", json!({})).await;
        let listed = listed["tools"].as_array().unwrap().iter();
        let destructive = listed.filter(|tool| tool["annotations"]["destructiveHint"] == true);
        let destructive = destructive.map(|tool| tool["name"].as_str().unwrap());
        let destructive: Vec<_> = destructive.collect();
        let partly = "update_container pause_container copy_to_container build_image tag_image compose_service prune";
        assert_eq!(destructive.join(" "), partly);
        let image = json!({"image": "busybox:test", "confirm": "busybox:test"});
        invalid(&lab, "remove_image", image).await;
        for (tool, arguments) in calls_on(&name) {
            if [
                "stop_container",
                "restart_container",
                "remove_container",
                "execute_command",
            ]
            .contains(&tool)
            {
                invalid(&lab, tool, arguments).await;
            }
        }
        assert_eq!(lab.state(&name).await, "running");
        // The others refuse calls that would lose data.
        let copy = json!({"container": name, "path": "/tmp/new", "text": "one"});
        succeed(&lab, "copy_to_container", copy.clone()).await;
        let mut again = copy;
        again["confirm"] = json!("/tmp/new");
        succeed(&lab, "prune", json!({"what": "containers"})).await;
        let removal = json!({"what": "containers", "apply": true, "confirm": "containers"});
        let pause = json!({"container": name});
        let lower = json!({"container": name, "memory_mb": 6});
        for (tool, arguments) in [
            ("copy_to_container", again),
            ("prune", removal),
            ("pause_container", pause),
            ("update_container", lower),
        ] {
            fails_with!(lab, tool, arguments, "no-destructive");
        }
        succeed!(lab, "update_container", {"container": name, "restart": "always"});
    }
}

#[tokio::test]
async fn server_does_not_change_its_own_container() {
    let Some(mut lab) = lab().await else { return };
    let own = lab.run("own", &["sleep", "600"], json!({})).await;
    let details = lab.docker.inspect_container(&own, None).await;
    let id = &details.unwrap().id.unwrap()[..12];
    // As in that container: its hostname is the beginning of its id.
    let script = format!("echo {id} > /proc/sys/kernel/hostname && exec \"$0\" --stdio");
    let mut command = tokio::process::Command::new("unshare");
    command.args(["--uts", "sh", "-c", &script]);
    command.arg(binary(SERVER));
    let env = [("DOCKER_MCP_ALLOW_EXEC", "1")];
    let mut session = StdioSession::with(command, &lab.host, &env).await;
    for (tool, arguments) in calls_on(&own).into_iter().skip(READING) {
        let id = session.start(tool, arguments).await;
        let text = session.answer(id).await.to_string();
        assert!(text.contains("this server runs in"), "{tool}: {text}");
    }
    assert_eq!(lab.state(&own).await, "running");
}
