//! Compose projects, as their labels tell.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::super::super::lab::Lab;
use super::{confirmed, fail, lab, lab_with, succeed, texts};
use crate::harness::assert_contains;

/// A project of two services, as compose would label it.
async fn project(lab: &mut Lab) -> String {
    let project = lab.name("shop");
    let labels = |service: &str| {
        json!({"StopTimeout": 0, "Labels": {
            "com.docker.compose.project": project, "com.docker.compose.service": service,
            "com.docker.compose.project.working_dir": "/srv/shop",
        }})
    };
    let script = "for i in 1 2 3; do echo web $i; sleep 0.2; done; sleep 600";
    lab.run("web", &["sh", "-c", script], labels("web")).await;
    let script = "sleep 0.1; for i in 1 2 3; do echo db $i; sleep 0.2; done; sleep 600";
    lab.run("db", &["sh", "-c", script], labels("db")).await;
    for name in ["web", "db"] {
        let arguments = json!({"container": lab.name(name), "until_match": " 3$", "tail": 10});
        succeed(lab, "follow_container_logs", arguments).await;
    }
    project
}

#[tokio::test]
async fn projects_are_seen_without_compose() {
    let Some(mut lab) = lab().await else { return };
    let name = project(&mut lab).await;
    let listed = succeed(&lab, "list_compose_projects", json!({})).await;
    assert!(listed.to_string().contains(&name), "{listed}");
    let one = succeed!(lab, "list_compose_projects", {"project": name});
    let one = &one["projects"][0];
    assert_has!(one, {"running": 2, "containers": 2, "directory": "/srv/shop"});
    let services: Vec<&Value> = one["services"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["service"])
        .collect();
    assert_eq!(services, ["db", "web"]);
    let missing = fail!(lab, "list_compose_projects", {"project": "nope"});
    assert!(missing.contains("There is no compose project"), "{missing}");
}

#[tokio::test]
async fn logs_of_a_project_are_in_order() {
    let Some(mut lab) = lab().await else { return };
    let name = project(&mut lab).await;
    let logs = async |more: Value| {
        let mut arguments = json!({"project": name});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let log = succeed(&lab, "get_compose_logs", arguments).await;
        log["log"]
            .as_str()
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let all = logs(json!({"timestamps": true})).await;
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!((all.len(), &all), (6, &sorted));
    let db = logs(json!({"service": "db"})).await;
    assert_eq!(db.len(), 3);
    assert!(db[0].ends_with("-db | db 1"), "{db:?}");
    let found = logs(json!({"grep": "2$"})).await;
    assert_eq!(found.len(), 2, "{found:?}");
    let missing = fail!(lab, "get_compose_logs", {"project": name, "service": "cache"});
    assert!(missing.contains("db, web"), "{missing}");
}

#[tokio::test]
async fn a_project_is_taken_down() {
    let Some(mut lab) = lab().await else { return };
    let name = project(&mut lab).await;
    let labels = json!({"com.docker.compose.project": name});
    let (network, volume) = (lab.name("shop_default"), lab.name("shop_data"));
    succeed!(lab, "create_network", {"network": network, "labels": labels});
    succeed!(lab, "create_volume", {"volume": volume, "labels": labels});
    let (loss, down) = confirmed(&lab, "compose_down", json!({"project": name}), &name).await;
    assert!(loss.contains("2 containers"), "{loss}");
    assert_eq!(
        texts(&down["removed_containers"]),
        [lab.name("db"), lab.name("web")]
    );
    assert_eq!(texts(&down["removed_networks"]), [network.as_str()]);
    assert_eq!(down["removed_volumes"], json!([]));
    assert!(down["failed"].is_null(), "{down}");
    succeed(&lab, "list_volumes", json!({"volume": volume})).await;

    let name = project(&mut lab).await;
    let arguments = json!({"project": name, "volumes": true});
    let (loss, down) = confirmed(&lab, "compose_down", arguments, &name).await;
    assert!(loss.contains("lost for good"), "{loss}");
    assert_eq!(texts(&down["removed_volumes"]), [volume.as_str()]);
}

#[tokio::test]
async fn up_needs_a_program_and_a_directory() {
    let dir = std::env::temp_dir().join(format!("mcp-{}", uuid::Uuid::new_v4().simple()));
    let (shop, bin) = (dir.join("Shop_1"), dir.join("bin"));
    fs::create_dir_all(&shop).unwrap();
    fs::create_dir_all(&bin).unwrap();
    let text = dir.to_str().unwrap();
    let Some(lab) = lab_with(&[("DOCKER_MCP_PROJECT_DIR", text)]).await else {
        return;
    };
    let missing = fail!(lab, "compose_up", {"directory": shop, "project": lab.name("shop")});
    assert!(missing.contains("There is no compose program"), "{missing}");
    let outside = fail(&lab, "compose_up", json!({"directory": "/etc"})).await;
    assert!(outside.contains("outside"), "{outside}");

    // A program that says how it is called, and knows no secrets of the server.
    let program = bin.join("docker-compose");
    let script =
        "#!/bin/sh\n[ \"$1\" = version ] && exit\necho \"$@\" >&2\npwd; env\n[ \"$2\" != bad ]\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let env = [
        ("PATH", path.as_str()),
        ("DOCKER_MCP_PROJECT_DIR", text),
        ("MCP_TOOLSETS", "all"),
        ("APP_WORD", "canary-10"),
    ];
    let lab = Lab::at(lab.host.clone(), &env).await;
    let up = succeed!(lab, "compose_up", {"directory": shop, "services": ["web"], "build": true});
    let output = up["output"].as_str().unwrap();
    assert!(output.contains("-p shop_1 up -d --build web"), "{output}");
    assert_contains(&output, "/Shop_1\n");
    assert_contains(&output, "DOCKER_HOST=unix://");
    assert!(!output.contains("canary-10"), "{output}");
    let failed = fail!(lab, "compose_up", {"directory": shop, "project": "bad"});
    assert!(failed.contains("did not come up"), "{failed}");
    fs::remove_dir_all(&dir).unwrap();
}
