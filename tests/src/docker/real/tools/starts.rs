//! Paths of the host that a container mounts are checked again when this server starts it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use super::super::super::SERVER;
use super::super::super::lab::{Folder, Lab};
use super::{fail, lab_with, succeed};
use crate::harness::{Server, assert_contains, real, wait_until};

const REFUSAL: &str = "does not start a container that mounts";

/// A policy that allows mounts of `data`.
fn policy(dir: &Folder) -> String {
    let policy = json!({"create": {"binds": [dir.path().join("data")]}});
    let policy = dir.write("policy.json", &policy.to_string());
    fs::create_dir_all(dir.path().join("data/folder")).unwrap();
    policy.to_str().unwrap().to_owned()
}

/// Puts a link in the place of a folder, as a container that may write there can do.
fn swap(folder: &Path) {
    fs::rename(folder, folder.with_extension("old")).unwrap();
    symlink("/etc", folder).unwrap();
}

fn swap_back(folder: &Path) {
    fs::remove_file(folder).unwrap();
    fs::rename(folder.with_extension("old"), folder).unwrap();
}

#[tokio::test]
async fn link_that_was_put_in_place_of_a_mount_is_not_followed() {
    let dir = Folder::new();
    let policy = policy(&dir);
    let Some(mut lab) = lab_with(&[("DOCKER_MCP_POLICY", &policy)]).await else {
        return;
    };
    let folder = dir.path().join("data/folder");
    let mount = format!("{}:/f", folder.display());
    let labels = json!({"com.docker.compose.config-hash": "1", "com.docker.compose.project": lab.name("shop"), "com.docker.compose.service": "web"});
    let ours = lab.adopt("ours");
    succeed!(lab, "create_container", {"image": "busybox:test", "name": ours, "mounts": [mount],
        "command": ["sleep", "600"], "labels": labels});
    let options = json!({"HostConfig": {"Binds": [mount]}, "Labels": labels});
    let theirs = lab.run("theirs", &["sleep", "600"], options).await;
    let mounts = json!([{"Type": "bind", "Source": folder, "Target": "/f"}]);
    let options = json!({"HostConfig": {"Mounts": mounts}, "Labels": labels});
    let mounted = lab.run("mounted", &["sleep", "600"], options).await;
    for name in [&ours, &theirs, &mounted] {
        let now = json!({"container": name, "timeout_seconds": 0});
        swap(&folder);
        // It still runs, with what it had.
        fails_with!(lab, "restart_container", now, REFUSAL);
        assert_eq!(lab.state(name).await, "running");
        let arguments = json!({"container": name, "confirm": name});
        fails_with!(lab, "recreate_container", arguments, "path of the host");
        succeed(&lab, "stop_container", now.clone()).await;
        fails_with!(lab, "start_container", {"container": name}, REFUSAL);
        fails_with!(lab, "restart_container", now, REFUSAL);
        let action = json!({"project": lab.name("shop"), "action": "start"});
        let text = fail(&lab, "compose_service", action).await;
        assert_contains(&text, REFUSAL);
        assert_eq!(lab.state(name).await, "exited");
        swap_back(&folder);
        succeed!(lab, "start_container", {"container": name});
        succeed(&lab, "restart_container", now).await;
        assert_eq!(lab.state(name).await, "running");
    }
}

/// A container that puts the link there when it is asked to end.
fn swapper(dir: &Folder) -> (Vec<&'static str>, Vec<String>) {
    let script = "trap 'mv /w/folder /w/folder.old; ln -s /etc /w/folder; exit' TERM; while :; do sleep 0.1; done";
    let source = |path: &str| format!("{}/data{path}", dir.str());
    let mounts = vec![
        format!("{}:/w", source("")),
        format!("{}:/f", source("/folder")),
    ];
    (vec!["sh", "-c", script], mounts)
}

#[tokio::test]
async fn link_that_a_container_makes_while_it_is_stopped_is_not_followed() {
    let dir = Folder::new();
    let policy = policy(&dir);
    let env = [("DOCKER_MCP_POLICY", &*policy)];
    let Some(mut lab) = lab_with(&env).await else {
        return;
    };
    let folder = dir.path().join("data/folder");
    let (command, mounts) = swapper(&dir);
    let web = lab.adopt("web");
    let made = json!({"image": "busybox:test", "name": web, "mounts": mounts, "command": command});
    succeed(&lab, "create_container", made).await;
    fails_with!(lab, "restart_container", {"container": web}, REFUSAL);
    assert_eq!(lab.state(&web).await, "exited");
    swap_back(&folder);

    // Neither the new container nor, on the way back, the old one.
    succeed!(lab, "start_container", {"container": web});
    let id = lab
        .docker
        .inspect_container(&web, None)
        .await
        .unwrap()
        .id
        .unwrap();
    let error = fail(
        &lab,
        "recreate_container",
        json!({"container": web, "confirm": web}),
    )
    .await;
    assert_contains(&error, "bringing back the old container failed, too");
    assert_eq!(lab.state(&id).await, "exited");
    // The next server brings it back once that is possible.
    swap_back(&folder);
    let env = [env[0], ("DOCKER_HOST", &*lab.host), ("MCP_TOOLSETS", "all")];
    let _next = Server::start(SERVER, &env).await;
    wait_until("the old one is back", async || {
        let now = lab.docker.inspect_container(&web, None).await;
        let now = serde_json::to_value(now.ok()).unwrap();
        now["Id"] == *id && now["State"]["Running"] == true
    })
    .await;
}

/// Compose mounts the files of secrets and configurations.
#[tokio::test]
async fn link_in_place_of_a_secret_is_not_followed() {
    let dir = Folder::new();
    let policy = policy(&dir);
    let Some(compose) = real::compose_dir() else {
        return;
    };
    let path = format!("{compose}:/usr/bin:/bin");
    let data = dir.path().join("data");
    let env = [
        ("PATH", &*path),
        ("MCP_TOOLSETS", "all"),
        ("DOCKER_MCP_POLICY", &*policy),
        ("DOCKER_MCP_PROJECT_DIR", dir.str()),
    ];
    for host in real::docker_engines() {
        let mut lab = Lab::at(host, &env).await;
        let project = lab.name("shop");
        let web = lab.adopt("shop-web-1");
        for kind in ["secrets", "configs"] {
            let file = dir.write("data/x.txt", "x");
            let yaml = format!(
                "services: {{web: {{image: 'busybox:test', command: [sleep, '600'], stop_grace_period: 0s, \
                 {kind}: [x]}}}}\n{kind}: {{x: {{file: ./x.txt}}}}\n"
            );
            let up =
                json!({"directory": data, "project": project, "yaml": yaml, "confirm": project});
            succeed(&lab, "compose_up", up).await;
            fs::remove_file(&file).unwrap();
            symlink("/etc/hostname", &file).unwrap();
            let restart = json!({"project": project, "action": "restart"});
            let text = fail(&lab, "compose_service", restart).await;
            assert_contains(&text, REFUSAL);
            // Nothing was stopped, since it could not be started again.
            assert_eq!(lab.state(&web).await, "running");
            succeed!(lab, "compose_down", {"project": project, "confirm": project});
            fs::remove_file(&file).unwrap();
        }
    }
}
