//! Creating, looking at, changing, removing.

use serde_json::{Value, json};

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
async fn what_ends_at_once_or_cannot_start_says_why() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.adopt("short");
    let arguments =
        json!({"image": "busybox:test", "name": name, "command": ["sh", "-c", "echo no; exit 3"]});
    let created = succeed(&lab, "create_container", arguments.clone()).await;
    assert_has!(created, {"exit_code": 3, "log": "no"});
    let taken = fail(&lab, "create_container", arguments).await;
    assert!(taken.contains("already in use"), "{taken}");

    let name = lab.adopt("broken");
    let arguments = json!({"image": "busybox:test", "name": name, "command": ["/nope"]});
    let broken = fail(&lab, "create_container", arguments).await;
    assert_contains(&broken, "exit code 127");
    assert_contains(&broken, "remove_container");
    let missing = fail!(lab, "create_container", {"image": "busybox:tset"});
    assert!(missing.contains("Did you mean `busybox:test`"), "{missing}");
}

#[tokio::test]
async fn a_container_is_only_created() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.adopt("later");
    let created = succeed!(lab, "create_container", {"image": "busybox:test", "name": name,
        "command": ["true"], "only_create": true});
    assert_eq!(created["state"], "created");
    assert_eq!(lab.state(&name).await, "created");
}

#[tokio::test]
async fn a_container_is_paused_and_goes_on() {
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
    assert_eq!(
        (host.memory, host.nano_cpus),
        (Some(64 << 20), Some(250_000_000))
    );
    assert_eq!(host.pids_limit, Some(20));
    let nothing = fail!(lab, "update_container", {"container": new_name});
    assert!(nothing.contains("Nothing to change"), "{nothing}");
}

#[tokio::test]
async fn a_kill_is_confirmed_and_a_message_is_not() {
    let Some(mut lab) = lab().await else { return };
    let script = "trap 'echo reloaded' HUP; echo ready; while true; do sleep 0.1; done";
    let name = lab.run("web", &["sh", "-c", script], json!({})).await;
    succeed!(lab, "follow_container_logs", {"container": name, "until_match": "ready", "tail": 10});
    succeed!(lab, "kill_container", {"container": name, "signal": "HUP"});
    let arguments = json!({"container": name, "until_match": "reloaded", "tail": 10});
    let log = succeed(&lab, "follow_container_logs", arguments).await;
    assert_eq!(log["stopped_by"], "matched", "{log}");
    let (loss, killed) = confirmed(&lab, "kill_container", json!({"container": name}), &name).await;
    assert!(loss.contains("not saved is lost"), "{loss}");
    assert_eq!(killed["before"], "running");
    lab.until(&name, "exited").await;
}

#[tokio::test]
async fn a_removal_says_what_goes_with_it() {
    let Some(mut lab) = lab().await else { return };
    let volumes = json!({"Volumes": {"/data": {}}});
    let name = lab.run("db", &["sleep", "600"], volumes).await;
    let running = fail(&lab, "remove_container", json!({"container": name})).await;
    assert!(running.contains("stop it first"), "{running}");
    let arguments = json!({"container": name, "force": true, "volumes": true});
    let (loss, removed) = confirmed(&lab, "remove_container", arguments, &name).await;
    assert_contains(&loss, "while it runs");
    assert_contains(&loss, "the data in /data");
    assert_eq!(removed["after"], "removed");
    let again = fail(&lab, "remove_container", json!({"container": name})).await;
    assert!(again.contains("There is no container"), "{again}");
}

#[tokio::test]
async fn sections_are_chosen() {
    let Some(mut lab) = lab().await else { return };
    let script = "mkdir -p /tmp; echo x > /tmp/new; exec sleep 600";
    let name = lab
        .run("web", &["sh", "-c", script], json!({"Env": ["A=1"]}))
        .await;
    let get = async |sections: &[&str]| {
        let arguments = json!({"container": name, "sections": sections});
        succeed(&lab, "get_container", arguments).await
    };
    let all = get(&[]).await;
    assert!(all["env"].is_array() && all["networks"].is_object() && all["processes"].is_null());
    let some = get(&["env"]).await;
    assert!(some["env"].is_array() && some["networks"].is_null() && some["command"].is_null());
    let inside = get(&["processes", "changes"]).await;
    assert!(
        texts(&inside["processes"])
            .iter()
            .any(|line| line.contains("sleep 600")),
        "{inside}"
    );
    assert!(
        texts(&inside["changes"]).contains(&"A /tmp/new"),
        "{inside}"
    );
}

#[tokio::test]
async fn containers_are_filtered() {
    let Some(mut lab) = lab().await else { return };
    let labels = json!({"Labels": {"tier": "web", "com.docker.compose.project": lab.name("shop")}});
    let web = lab.run("web", &["sleep", "600"], labels).await;
    let old = lab.finish("old", &["true"], json!({})).await;
    let prefix = lab.name("");
    let names = async |mut filter: Value| {
        filter["name"] = json!(prefix);
        let listed = succeed(&lab, "list_containers", filter).await;
        let rows = listed["containers"].as_array().unwrap().clone();
        rows.iter()
            .map(|row| row["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(json!({"label": "tier"})).await,
        std::slice::from_ref(&web)
    );
    assert_eq!(
        names(json!({"label": "tier=web"})).await,
        std::slice::from_ref(&web)
    );
    assert!(names(json!({"label": "tier=db"})).await.is_empty());
    assert_eq!(names(json!({"state": "exited"})).await, [old]);
    assert_eq!(names(json!({"project": lab.name("shop")})).await, [web]);
    assert!(
        names(json!({"image": "nginx", "all": true}))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn what_a_stop_would_remove_is_confirmed() {
    let Some(mut lab) = lab().await else { return };
    let more = json!({"HostConfig": {"AutoRemove": true}, "StopTimeout": 0});
    let name = lab.run("once", &["sleep", "600"], more).await;
    let (loss, stopped) =
        confirmed(&lab, "stop_container", json!({"container": name}), &name).await;
    assert!(loss.contains("--rm"), "{loss}");
    assert!(
        stopped["after"] == "removed"
            || stopped["after"] == "removing"
            || stopped["after"] == "exited",
        "{stopped}"
    );
}
