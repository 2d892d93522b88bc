//! `compose_up` with the real compose program, and `compose_down` after it.

use bollard::query_parameters::RemoveImageOptions;
use serde_json::{Value, json};

use super::super::super::lab::{Folder, Lab};
use super::{confirmed, fail, succeed, texts};
use crate::harness::real;

/// A server on each engine, with the compose program and access to the directory.
pub(super) async fn labs(shop: &Folder) -> Vec<Lab> {
    let Some(compose) = real::compose_dir() else {
        return Vec::new();
    };
    let path = format!("{compose}:/usr/bin:/bin");
    let env = [
        ("PATH", path.as_str()),
        ("DOCKER_MCP_PROJECT_DIR", shop.str()),
        ("MCP_TOOLSETS", "all"),
        ("MCP_CALL_TIMEOUT", "120"),
        ("APP_WORD", "canary-11"),
    ];
    let mut labs = Vec::new();
    for host in real::docker_engines() {
        labs.push(Lab::at(host, &env).await);
    }
    labs
}

fn services(word: &str) -> String {
    format!(
        r#"services:
  web:
    image: busybox:test
    command: [sh, -c, "echo $$WORD; sleep 600"]
    stop_grace_period: 0s
    environment: {{ WORD: {word}, LEAK: "${{APP_WORD:-}}" }}
    volumes: ["data:/data"]
  db:
    image: busybox:test
    command: [sleep, "600"]
    stop_grace_period: 0s
volumes:
  data:
"#
    )
}

async fn environment(lab: &Lab, container: &str) -> Vec<String> {
    let details = lab.docker.inspect_container(container, None).await;
    details.unwrap().config.unwrap().env.unwrap()
}

#[tokio::test]
async fn project_is_started_changed_and_removed() {
    let shop = Folder::new();
    for mut lab in labs(&shop).await {
        shop.write("compose.yml", &services("one"));
        let project = lab.name("shop");
        let (web, db) = (lab.adopt("shop-web-1"), lab.adopt("shop-db-1"));
        let arguments = json!({"directory": shop.path(), "project": project});
        let up = succeed(&lab, "compose_up", arguments.clone()).await;
        assert_eq!((&up["running"], &up["containers"]), (&json!(2), &json!(2)));
        assert!(up["output"].as_str().unwrap().contains("Started"), "{up}");
        let set = environment(&lab, &web).await;
        assert!(set.contains(&"WORD=one".to_owned()), "{set:?}");
        assert!(!set.iter().any(|value| value.contains("canary")), "{set:?}");

        let shown = json!({"project": project});
        let listed = succeed(&lab, "list_compose_projects", shown.clone()).await;
        let listed = &listed["projects"][0];
        assert_has!(listed, {"directory": shop.path(), "running": 2});
        let log = succeed!(lab, "get_container_logs", {"project": project, "service": "web"});
        assert!(log["log"].as_str().unwrap().ends_with("| one"), "{log}");

        // A call that changes nothing needs no confirmation.
        succeed(&lab, "compose_up", arguments.clone()).await;
        // A change of a running project needs one; the other service is not changed.
        shop.write("compose.yml", &services("two"));
        let untouched = lab.docker.inspect_container(&db, None).await.unwrap().id;
        let (loss, up) = confirmed(&lab, "compose_up", arguments, &project).await;
        assert!(loss.contains("are recreated"), "{loss}");
        assert!(loss.contains(&web) && !loss.contains(&db), "{loss}");
        assert_eq!(up["running"], 2, "{up}");
        let set = environment(&lab, &web).await;
        assert!(set.contains(&"WORD=two".to_owned()), "{set:?}");
        let still = lab.docker.inspect_container(&db, None).await.unwrap().id;
        assert_eq!(still, untouched);

        let arguments = json!({"project": project, "volumes": true});
        let (_, down) = confirmed(&lab, "compose_down", arguments, &project).await;
        assert_eq!(texts(&down["removed_containers"]), [db, web]);
        let network = format!("{project}_default");
        assert_eq!(texts(&down["removed_networks"]), [network.as_str()]);
        let volume = format!("{project}_data");
        assert_eq!(texts(&down["removed_volumes"]), [volume.as_str()]);
        assert!(down["failed"].is_null(), "{down}");
        fails_with!(
            lab,
            "list_compose_projects",
            shown,
            "There is no compose project"
        );
    }
}

#[tokio::test]
async fn selected_services_are_built_and_started() {
    let shop = Folder::new();
    let file = "services:\n  web:\n    build: .\n    image: IMAGE\n    init: false\n    stop_grace_period: 0s\n  db:\n    image: busybox:test\n";
    shop.write(
        "Dockerfile",
        "FROM busybox:test\nCOPY word /word\nCMD [\"sleep\", \"600\"]\n",
    );
    shop.write("word", "built");
    // The other engine is too old for builds.
    for mut lab in labs(&shop).await.into_iter().take(1) {
        let (project, image) = (lab.name("built"), format!("{}:1", lab.name("image")));
        shop.write("docker-compose.yml", &file.replace("IMAGE", &image));
        let web = lab.adopt("built-web-1");
        let up = succeed!(lab, "compose_up", {"directory": shop.path(), "project": project,
            "services": ["web"], "build": true});
        assert_eq!((&up["running"], &up["containers"]), (&json!(1), &json!(1)));
        let copied = succeed!(lab, "copy_from_container", {"container": web, "path": "/word"});
        assert!(copied.to_string().contains("built"), "{copied}");
        let (_, down) =
            confirmed(&lab, "compose_down", json!({"project": project}), &project).await;
        assert_eq!(texts(&down["removed_containers"]), [web]);
        let removal = lab
            .docker
            .remove_image(&image, None::<RemoveImageOptions>, None);
        removal.await.unwrap();
    }
}

#[tokio::test]
async fn errors_of_compose_are_returned() {
    let shop = Folder::new();
    let wrong = [
        (
            "services:\n  web:\n    imagee: busybox:test\n",
            ["not valid", "imagee"],
        ),
        (
            "services:\n  web:\n    image: mcp-test-nowhere.invalid/x:1\n",
            ["did not come up", "mcp-test-nowhere.invalid"],
        ),
        ("services: [", ["not valid", "line"]),
    ];
    for lab in labs(&shop).await {
        for (file, [what, word]) in wrong {
            shop.write("compose.yml", file);
            let arguments = json!({"directory": shop.path(), "project": lab.name("bad")});
            fails_with!(lab, "compose_up", arguments, what, word);
        }
        let listed = succeed(&lab, "list_compose_projects", json!({})).await;
        assert!(!names(&listed).contains(&lab.name("bad")), "{listed}");
    }
}

fn names(listed: &Value) -> Vec<String> {
    let projects = listed["projects"].as_array().unwrap().iter();
    projects
        .map(|project| project["project"].to_string())
        .collect()
}
