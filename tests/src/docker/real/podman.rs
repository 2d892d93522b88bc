//! Podman behind the interface of Docker: what works there as with an engine, and what does not.

use crate::docker::prelude::*;

/// A server for Podman; `None` if Podman is missing.
async fn lab() -> Option<Lab> {
    Some(Lab::at(real::podman()?, &[]).await)
}

const CONTAINER: &str = r#"
create_container | {"image": "busybox:test", "name": "P-web", "command": ["sh", "-c", "echo hello; echo oops >&2; sleep 600"], "env": {"WORD": "one"}} | {"state": "running"}
list_containers | {"name": "P-web"} | "name":"P-web" & "state":"running"
get_container | {"container": "P-web"} | {"state": {"status": "running"}}
get_container_logs | {"container": "P-web"} | hello & oops
execute_command | {"container": "P-web", "command": ["cat", "/proc/1/cmdline"]} | {"exit_code": 0}
restart_container | {"container": "P-web", "timeout_seconds": 0} | {"after": "running"}
stop_container | {"container": "P-web", "timeout_seconds": 0} | {"after": "exited"}
start_container | {"container": "P-web"} | {"after": "running"}
remove_container | {"container": "P-web", "force": true, "confirm": "P-web"} | removed
get_container | {"container": "P-web"} | ! no container
"#;

#[tokio::test]
async fn podman_containers_are_listed_and_changed() {
    let Some(lab) = lab().await else { return };
    lab.server.wait_for_status("online").await;
    lab.steps(CONTAINER, &[]).await;
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
