//! Projects from the text of a compose file: checked, written, brought up, scaled, stopped and started.

use std::fs;

use serde_json::{Value, json};

use super::super::super::lab::{Folder, Lab, merged};
use super::compose_cli::labs;
use super::{confirmed, fail, succeed, texts};
use crate::harness::assert_lacks;

/// The text of a compose file, with this word in the environment.
fn yaml(word: &str) -> String {
    format!(
        r#"services:
  web:
    image: busybox:test
    command: [sh, -c, "echo $$WORD; sleep 600"]
    stop_grace_period: 0s
    environment: {{ WORD: "{word}", DB_PASSWORD: canary-41 }}
    labels: {{ "a$b": "c$$d" }}
    healthcheck: {{ test: [CMD, "true"], interval: 1s }}
  tools:
    image: busybox:test
    command: [sleep, "600"]
    stop_grace_period: 0s
    profiles: [debug]
"#
    )
}

/// The states of the project's containers, by name.
async fn states(lab: &Lab, project: &str) -> Vec<String> {
    let listed = succeed!(lab, "list_compose_projects", {"project": project});
    let services = listed["projects"][0]["services"].as_array().unwrap();
    let state = |row: &Value| format!("{} {}", row["service"], row["state"]).replace('"', "");
    services.iter().map(state).collect()
}

#[tokio::test]
async fn project_is_deployed_from_text() {
    let dir = Folder::new();
    for mut lab in labs(&dir).await {
        let project = lab.name("shop");
        let shop = dir.path().join(&project);
        let [web, second, tools] =
            ["shop-web-1", "shop-web-2", "shop-tools-1"].map(|it| lab.adopt(it));
        let named = json!({"directory": shop, "project": project});
        // What is not allowed leaves nothing behind.
        let bad = "services: {web: {image: 'busybox:test', privileged: true}}";
        let text = fail(
            &lab,
            "compose_up",
            merged(named.clone(), json!({"yaml": bad})),
        )
        .await;
        assert!(text.contains("privileged") && !shop.exists(), "{text}");

        let deploy = merged(named.clone(), json!({"yaml": yaml("a$$b"), "wait": true}));
        let up = succeed(&lab, "compose_up", deploy.clone()).await;
        assert_eq!(
            (&up["running"], &up["containers"]),
            (&json!(1), &json!(1)),
            "{up}"
        );
        let file = shop.join("compose.yaml");
        assert_eq!(up["written"], file.to_str().unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), yaml("a$$b"));
        let details = lab.docker.inspect_container(&web, None).await.unwrap();
        let config = details.config.unwrap();
        assert!(config.env.unwrap().contains(&"WORD=a$b".to_owned()));
        assert_eq!(config.labels.unwrap()["a$b"], "c$d");
        let health = details.state.unwrap().health.unwrap().status.unwrap();
        assert_eq!(health.to_string(), "healthy");

        let shown = succeed(&lab, "compose_config", named.clone()).await;
        assert_has!(shown, {"project": project});
        assert_eq!(
            shown["config"]["services"]["web"]["environment"]["WORD"], "a$b",
            "{shown}"
        );
        assert!(
            shown["refused"].is_null() && shown["redacted"] == 1,
            "{shown}"
        );
        assert!(shown["config"]["services"]["tools"].is_null(), "{shown}");
        assert_lacks(&shown.to_string(), "canary");
        let profile = json!({"profiles": ["debug"], "services": ["tools"]});
        let shown = succeed(
            &lab,
            "compose_config",
            merged(named.clone(), profile.clone()),
        )
        .await;
        assert_eq!(
            shown["config"]["services"]["tools"]["command"], "sleep 600",
            "{shown}"
        );

        // Another text is written, and containers are replaced, once the user agrees.
        let other = merged(deploy, json!({"yaml": yaml("two"), "scale": {"web": 2}}));
        let (loss, up) = confirmed(&lab, "compose_up", other, &project).await;
        assert!(
            loss.contains("are recreated") && loss.contains("Overwrites"),
            "{loss}"
        );
        assert_eq!(up["running"], 2, "{up}");
        assert_eq!(fs::read_to_string(&file).unwrap(), yaml("two"));
        let confirm = json!({"confirm": project});
        let more = merged(merged(named.clone(), profile), confirm.clone());
        assert_eq!(succeed(&lab, "compose_up", more).await["running"], 3);
        let running = ["tools running", "web running", "web running"];
        assert_eq!(states(&lab, &project).await, running);
        let wrong = merged(merged(named, confirm), json!({"scale": {"nope": 2}}));
        fails_with!(lab, "compose_up", wrong, "nope");

        let act = async |action: &str, service: &str| {
            let arguments = json!({"project": project, "service": service, "action": action});
            let done = succeed(&lab, "compose_service", arguments).await;
            assert!(done["failed"].is_null(), "{done}");
            done["containers"].as_array().unwrap().len()
        };
        assert_eq!(act("stop", "web").await, 2);
        let stopped = ["tools running", "web exited", "web exited"];
        assert_eq!(states(&lab, &project).await, stopped);
        assert_eq!(act("start", "web").await, 2);
        assert_eq!(states(&lab, &project).await, running);
        let started = async |name: &str| {
            let details = lab.docker.inspect_container(name, None).await.unwrap();
            details.state.unwrap().started_at.unwrap()
        };
        let before = [started(&second).await, started(&tools).await];
        assert_eq!(act("restart", "web").await, 2);
        assert_ne!(started(&second).await, before[0]);
        assert_eq!(started(&tools).await, before[1]);
        let unknown = json!({"project": project, "service": "nope", "action": "stop"});
        fails_with!(lab, "compose_service", unknown, "no such service", "tools");
        let pull = json!({"project": project, "service": "web", "action": "pull"});
        let pulled = succeed(&lab, "compose_service", pull).await;
        // The engine of the tests reaches no registry.
        assert!(pulled["failed"]["busybox:test"].is_string(), "{pulled}");

        let (_, down) =
            confirmed(&lab, "compose_down", json!({"project": project}), &project).await;
        assert_eq!(texts(&down["removed_containers"]).len(), 3);
    }
}

#[tokio::test]
async fn text_is_not_written_through_links_or_outside() {
    let (dir, outside) = (Folder::new(), Folder::new());
    for lab in labs(&dir).await {
        let project = lab.name("shop");
        std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).unwrap();
        let theirs = outside.write("theirs", "theirs");
        dir.write("shop/x", "");
        std::os::unix::fs::symlink(&theirs, dir.path().join("shop/compose.yml")).unwrap();
        for (folder, reason) in [
            (outside.path().join("new"), "outside"),
            (dir.path().join("link/new"), "outside"),
            (dir.path().join("a/b"), "no such directory"),
            (dir.path().join("../new"), "absolute path"),
            (dir.path().join("shop"), "symbolic link"),
        ] {
            let arguments = json!({"directory": folder, "project": project, "yaml": yaml("x")});
            let text = fail(&lab, "compose_up", arguments).await;
            assert!(text.contains(reason), "{folder:?}: {text}");
        }
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        fs::remove_file(dir.path().join("link")).unwrap();
        fs::remove_file(dir.path().join("shop/compose.yml")).unwrap();
    }
}
