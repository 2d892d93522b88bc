//! Podman behind the interface of Docker: what works there as with an engine, and what does not.

use crate::docker::prelude::*;

/// A server for Podman; `None` if Podman is missing.
async fn lab() -> Option<Lab> {
    Some(Lab::at(real::podman()?, &[]).await)
}

#[tokio::test]
async fn podman_containers_are_listed_and_changed() {
    let Some(lab) = lab().await else { return };
    lab.server.wait_for_status("online").await;
    let name = lab.name("web");
    let script = ["sh", "-c", "echo hello; echo oops >&2; sleep 600"];
    let created = succeed!(lab, "create_container", {"image": "busybox:test", "name": name,
        "command": script, "env": {"WORD": "one"}});
    assert_eq!(created["state"], "running", "{created}");
    let listed = succeed!(lab, "list_containers", {"name": name});
    assert_has!(listed["containers"][0], {"name": name, "state": "running"});
    let shown = succeed!(lab, "get_container", {"container": name});
    assert_has!(shown, {"state": {"status": "running"}});
    let log = succeed!(lab, "get_container_logs", {"container": name});
    assert_contains(&log["log"], "hello");
    assert_contains(&log["log"], "oops");
    let ran = succeed!(lab, "execute_command", {"container": name, "command": ["cat", "/proc/1/cmdline"]});
    assert_eq!(ran["exit_code"], 0, "{ran}");
    let now = json!({"container": name, "timeout_seconds": 0});
    let restarted = succeed(&lab, "restart_container", now.clone()).await;
    assert_eq!(restarted["after"], "running", "{restarted}");
    let stopped = succeed(&lab, "stop_container", now).await;
    assert_eq!(stopped["after"], "exited", "{stopped}");
    let started = succeed(&lab, "start_container", json!({"container": name})).await;
    assert_eq!(started["after"], "running", "{started}");
    succeed!(lab, "remove_container", {"container": name, "force": true, "confirm": name});
    fails_with!(lab, "get_container", {"container": name}, "no container");
}

#[tokio::test]
async fn podman_images_and_other_objects_are_listed() {
    let Some(lab) = lab().await else { return };
    let images = succeed(&lab, "list_images", json!({})).await;
    assert!(images.to_string().contains("busybox:test"), "{images}");
    let image = succeed!(lab, "list_images", {"image": "busybox:test"})["image"].clone();
    assert!(image["history"].is_array(), "{image}");
    for tool in ["list_networks", "list_volumes", "list_compose_projects"] {
        succeed(&lab, tool, json!({})).await;
    }
    let info = succeed(&lab, "get_system_info", json!({})).await;
    assert!(info.to_string().contains("4."), "{info}");
}

/// Nothing could keep it from the network of the host.
#[tokio::test]
async fn podman_builds_need_the_network_of_the_host() {
    let Some(lab) = lab().await else { return };
    let text = fail!(lab, "build_image", {"tag": "mcp-test-never:1", "dockerfile": "FROM scratch"});
    assert!(text.contains("or is Podman"), "{text}");
}
