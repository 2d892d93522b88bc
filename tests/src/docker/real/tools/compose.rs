//! Compose projects, which are found by labels.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::super::super::lab::{Folder, Lab, merged};
use super::{cli_lab, confirmed, fail, lab, lab_with, succeed, texts};
use crate::harness::assert_contains;

/// A project of two services, as compose would label it.
async fn project(lab: &mut Lab) -> String {
    let project = lab.name("shop");
    let labels = |service: &str| {
        json!({"StopTimeout": 0, "Labels": {
            "com.docker.compose.config-hash": "1", "com.docker.compose.project": project, "com.docker.compose.service": service,
            "com.docker.compose.oneoff": "False", "com.docker.compose.container-number": "1",
            "com.docker.compose.project.working_dir": "/srv/shop",
        }})
    };
    let script = "for i in 1 2 3; do echo web $i; sleep 0.2; done; sleep 600";
    lab.run("web", &["sh", "-c", script], labels("web")).await;
    let script = "sleep 0.1; for i in 1 2 3; do echo db $i; sleep 0.2; done; sleep 600";
    lab.run("db", &["sh", "-c", script], labels("db")).await;
    for name in ["web", "db"] {
        let arguments = json!({"container": lab.name(name), "until_match": " 3$", "tail": 10});
        succeed(lab, "get_container_logs", arguments).await;
    }
    project
}

#[tokio::test]
async fn projects_are_listed_without_compose() {
    let Some(mut lab) = lab().await else { return };
    let name = project(&mut lab).await;
    let listed = succeed(&lab, "list_compose_projects", json!({})).await;
    assert!(listed.to_string().contains(&name), "{listed}");
    let one = succeed!(lab, "list_compose_projects", {"project": name});
    let one = &one["projects"][0];
    assert_has!(one, {"running": 2, "containers": 2, "directory": "/srv/shop"});
    let services = one["services"].as_array().unwrap().iter();
    let services: Vec<_> = services.map(|row| &row["service"]).collect();
    assert_eq!(services, ["db", "web"]);
    fails_with!(lab, "list_compose_projects", {"project": "nope"}, "There is no compose project");
}

#[tokio::test]
async fn compose_logs_are_in_order_of_time() {
    let Some(mut lab) = lab().await else { return };
    let name = project(&mut lab).await;
    let logs = async |more: Value| -> Vec<String> {
        let arguments = merged(more, json!({"project": name}));
        let log = succeed(&lab, "get_container_logs", arguments).await;
        let lines = log["log"].as_str().unwrap().lines();
        lines.map(str::to_owned).collect()
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
    fails_with!(lab, "get_container_logs", {"project": name, "service": "cache"}, "db, web");
}

#[tokio::test]
async fn project_is_removed() {
    let Some(mut lab) = cli_lab(&[]).await else {
        return;
    };
    let name = project(&mut lab).await;
    let made = |kind: &str| json!({"com.docker.compose.project": name, format!("com.docker.compose.{kind}"): "x"});
    let (network, volume) = (lab.name("shop_default"), lab.name("shop_data"));
    succeed!(lab, "create_network", {"network": network, "labels": made("network")});
    succeed!(lab, "create_volume", {"volume": volume, "labels": made("volume")});
    let (loss, down) = confirmed(&lab, "compose_down", json!({"project": name}), &name).await;
    assert!(loss.contains("2 containers"), "{loss}");
    let removed = [lab.name("db"), lab.name("web")];
    assert_eq!(texts(&down["removed_containers"]), removed);
    assert_eq!(texts(&down["removed_networks"]), [network.as_str()]);
    assert_eq!(down["removed_volumes"], json!([]));
    assert!(down["failed"].is_null(), "{down}");
    succeed(&lab, "list_volumes", json!({"volume": volume})).await;

    let name = project(&mut lab).await;
    let arguments = json!({"project": name, "volumes": true});
    let (loss, down) = confirmed(&lab, "compose_down", arguments, &name).await;
    assert!(loss.contains("permanently lost"), "{loss}");
    assert_eq!(texts(&down["removed_volumes"]), [volume.as_str()]);
}

#[tokio::test]
async fn compose_up_needs_a_program_and_a_directory() {
    let dir = Folder::new();
    let shop = dir.path().join("Shop_1");
    dir.write("Shop_1/compose.yml", "services: {}");
    let text = dir.str();
    let Some(lab) = lab_with(&[("DOCKER_MCP_PROJECT_DIR", text)]).await else {
        return;
    };
    let missing = fail!(lab, "compose_up", {"directory": shop, "project": lab.name("shop")});
    assert!(missing.contains("There is no compose program"), "{missing}");
    fails_with!(lab, "compose_up", {"directory": "/etc"}, "outside");

    // A program that prints its arguments and its environment, without secrets of the server.
    let script = "#!/bin/sh\ncase \" $* \" in ' version ') echo v2.30.1; exit;;\n\
        *' bad '*' config '*) echo '{\"name\": \"bad\"}'; exit;;\n*' config '*) echo '{\"name\": \"shop_1\"}'; exit;; esac\n\
        echo \"$@\" >&2\npwd; env\n[ \"$2\" != bad ]\n";
    let program = dir.write("bin/docker-compose", script);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{text}/bin:/usr/bin:/bin");
    let env = [
        ("PATH", path.as_str()),
        ("DOCKER_MCP_PROJECT_DIR", text),
        ("MCP_TOOLSETS", "all"),
        ("APP_WORD", "canary-10"),
    ];
    let lab = Lab::at(lab.host.clone(), &env).await;
    let up = succeed!(lab, "compose_up", {"directory": shop, "services": ["web"], "build": true});
    let output = up["output"].as_str().unwrap();
    assert!(output.contains("-p shop_1 --project-directory"), "{output}");
    assert_contains(&output, "-f - up -d --build web");
    assert_contains(&output, "/Shop_1\n");
    assert_contains(&output, "DOCKER_HOST=unix://");
    assert!(!output.contains("canary-10"), "{output}");
    fails_with!(lab, "compose_up", {"directory": shop, "project": "bad"}, "did not come up");
}
