//! Containers: create, inspect, change, remove.

use serde_json::json;

use super::{confirmed, fail, lab, succeed, texts};
use crate::harness::{assert_contains, assert_ends_with, assert_starts_with};

#[tokio::test]
async fn a_container_is_created_and_started() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.adopt("web");
    let created = succeed!(lab, "create_container", {"image": "busybox:test", "name": name,
        "command": ["sleep", "600"], "env": {"GREETING": "a=b c"}, "labels": {"tier": "web"},
        "ports": ["80"], "memory_mb": 32, "cpus": 0.5, "restart": "on-failure",
        "working_dir": "/bin", "user": "1000"});
    assert_has!(created, {"name": name, "state": "running"});
    // Only on loopback, unless another address is given.
    let port = created["ports"][0].as_str().unwrap();
    assert_starts_with(&port, "127.0.0.1:");
    assert_ends_with(&port, "->80/tcp");
    let details = lab.docker.inspect_container(&name, None).await.unwrap();
    let config = details.config.unwrap();
    assert!(config.env.unwrap().contains(&"GREETING=a=b c".to_owned()));
    assert_eq!(config.labels.unwrap()["docker-mcp-server.created"], "true");
    assert_eq!(details.host_config.unwrap().memory, Some(32 << 20));
}

#[tokio::test]
async fn early_exit_and_failed_start_are_explained() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.adopt("short");
    let arguments =
        json!({"image": "busybox:test", "name": name, "command": ["sh", "-c", "echo no; exit 3"]});
    let created = succeed(&lab, "create_container", arguments.clone()).await;
    assert_has!(created, {"exit_code": 3, "log": "no"});
    fails_with!(lab, "create_container", arguments, "already in use");

    let name = lab.adopt("broken");
    let arguments = json!({"image": "busybox:test", "name": name, "command": ["/nope"]});
    fails_with!(
        lab,
        "create_container",
        arguments,
        "exit code 127",
        "remove_container"
    );
    fails_with!(lab, "create_container", {"image": "busybox:tset"}, "Did you mean `busybox:test`");
}

#[tokio::test]
async fn create_without_start() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.adopt("later");
    let created = succeed!(lab, "create_container", {"image": "busybox:test", "name": name,
        "command": ["true"], "only_create": true});
    assert_eq!(created["state"], "created");
    assert_eq!(lab.state(&name).await, "created");
}

#[tokio::test]
async fn container_is_paused_and_resumed() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.run("web", &["sleep", "600"], json!({})).await;
    let pause = async |unpause: bool| {
        let arguments = json!({"container": name, "unpause": unpause});
        succeed(&lab, "pause_container", arguments).await
    };
    assert_eq!(pause(false).await["after"], "paused");
    assert_eq!(lab.state(&name).await, "paused");
    assert_eq!(pause(false).await["changed"], false);
    assert_eq!(pause(true).await["after"], "running");
    assert_eq!(pause(true).await["changed"], false);
}

#[tokio::test]
async fn limits_and_name_are_changed_while_it_runs() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.run("web", &["sleep", "600"], json!({})).await;
    let new_name = lab.adopt("renamed");
    let updated = succeed!(lab, "update_container", {"container": name, "memory_mb": 64,
        "cpus": 0.25, "pids": 20, "restart": "always", "new_name": new_name});
    assert_eq!(updated["container"], json!(new_name));
    let details = lab.docker.inspect_container(&new_name, None).await.unwrap();
    let host = details.host_config.unwrap();
    let limits = (host.memory, host.nano_cpus, host.pids_limit);
    assert_eq!(limits, (Some(64 << 20), Some(250_000_000), Some(20)));
    fails_with!(lab, "update_container", {"container": new_name}, "Nothing to change");
}

#[tokio::test]
async fn fatal_signal_needs_a_confirmation() {
    let Some(mut lab) = lab().await else { return };
    let script = "trap 'echo reloaded' HUP; echo ready; while true; do sleep 0.1; done";
    let name = lab.run("web", &["sh", "-c", script], json!({})).await;
    succeed!(lab, "get_container_logs", {"container": name, "until_match": "ready", "tail": 10});
    succeed!(lab, "kill_container", {"container": name, "signal": "HUP"});
    let arguments = json!({"container": name, "until_match": "reloaded", "tail": 10});
    let log = succeed(&lab, "get_container_logs", arguments).await;
    assert_eq!(log["stopped_by"], "matched", "{log}");
    let (loss, killed) = confirmed(&lab, "kill_container", json!({"container": name}), &name).await;
    assert!(loss.contains("unsaved data is lost"), "{loss}");
    assert_eq!(killed["before"], "running");
    lab.until(&name, "exited").await;
}

#[tokio::test]
async fn removal_names_the_lost_data() {
    let Some(mut lab) = lab().await else { return };
    let volumes = json!({"Volumes": {"/data": {}}});
    let name = lab.run("db", &["sleep", "600"], volumes).await;
    fails_with!(lab, "remove_container", {"container": name}, "stop it first");
    let arguments = json!({"container": name, "force": true, "volumes": true});
    let (loss, removed) = confirmed(&lab, "remove_container", arguments, &name).await;
    assert_contains(&loss, "while it runs");
    assert_contains(&loss, "the data in /data");
    assert_eq!(removed["after"], "removed");
    fails_with!(lab, "remove_container", {"container": name}, "There is no container");
}

#[tokio::test]
async fn sections_are_chosen() {
    let Some(mut lab) = lab().await else { return };
    let script = "mkdir -p /tmp; echo x > /tmp/new; exec sleep 600";
    let env = json!({"Env": ["A=1"]});
    let name = lab.run("web", &["sh", "-c", script], env).await;
    let get = async |sections: &[&str]| {
        let arguments = json!({"container": name, "sections": sections});
        succeed(&lab, "get_container", arguments).await
    };
    let all = get(&[]).await;
    assert!(all["env"].is_array() && all["networks"].is_object() && all["processes"].is_null());
    let some = get(&["env"]).await;
    assert!(some["env"].is_array() && some["networks"].is_null() && some["command"].is_null());
    let inside = get(&["processes", "changes"]).await;
    let mut processes = texts(&inside["processes"]).into_iter();
    assert!(processes.any(|line| line.contains("sleep 600")), "{inside}");
    let changes = texts(&inside["changes"]);
    assert!(changes.contains(&"A /tmp/new"), "{inside}");
}

#[tokio::test]
async fn containers_are_filtered() {
    let Some(mut lab) = lab().await else { return };
    let labels = json!({"Labels": {"tier": "web", "com.docker.compose.config-hash": "1", "com.docker.compose.project": lab.name("shop")}});
    let web = lab.run("web", &["sleep", "600"], labels).await;
    let old = lab.finish("old", &["true"], json!({})).await;
    let prefix = lab.name("");
    for (mut filter, expected) in [
        (json!({"label": "tier"}), vec![&web]),
        (json!({"label": "tier=web"}), vec![&web]),
        (json!({"label": "tier=db"}), vec![]),
        (json!({"state": "exited"}), vec![&old]),
        (json!({"project": lab.name("shop")}), vec![&web]),
        (json!({"image": "nginx", "all": true}), vec![]),
    ] {
        filter["name"] = json!(prefix);
        let listed = succeed!(lab, "list_containers", filter);
        let rows = listed["containers"].as_array().unwrap().iter();
        let names: Vec<_> = rows.map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{filter}");
    }
}

#[tokio::test]
async fn stop_of_an_auto_removed_container_needs_a_confirmation() {
    let Some(mut lab) = lab().await else { return };
    let more = json!({"HostConfig": {"AutoRemove": true}, "StopTimeout": 0});
    let name = lab.run("once", &["sleep", "600"], more).await;
    let (loss, stopped) =
        confirmed(&lab, "stop_container", json!({"container": name}), &name).await;
    assert!(loss.contains("--rm"), "{loss}");
    let after = stopped["after"].as_str().unwrap();
    let is_gone = ["removed", "removing", "exited"].contains(&after);
    assert!(is_gone, "{stopped}");
}
