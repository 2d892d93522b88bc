//! Compose projects: those that are found by labels, and `compose_up` with the real compose program, of files and of texts,
//! with the other actions after it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::super::super::lab::{Folder, Lab, merged, of_compose};
use super::{confirmed, fail, isolated_lab, lab_with, succeed, texts};
use crate::harness::{assert_contains, assert_lacks, assert_starts_with, wait_until};

/// A server on each engine, with the compose program and access to the directory.
pub(super) async fn labs(shop: &Folder) -> Vec<Lab> {
    super::cli_labs(&[
        ("DOCKER_MCP_PROJECT_DIR", shop.str()),
        ("MCP_CALL_TIMEOUT", "120"),
        ("APP_WORD", "canary-11"),
    ])
    .await
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

async fn environment(lab: &Lab, container: &str) -> String {
    lab.inspect(container).await["Config"]["Env"].to_string()
}

#[tokio::test]
async fn project_is_started_changed_and_removed() {
    let shop = Folder::new();
    for lab in labs(&shop).await {
        shop.write("compose.yml", &services("one"));
        let project = lab.name("shop");
        let (web, db) = (lab.name("shop-web-1"), lab.name("shop-db-1"));
        let arguments = json!({"directory": shop.path(), "project": project});
        let up = succeed(&lab, "compose_up", arguments.clone()).await;
        assert_eq!((&up["running"], &up["containers"]), (&json!(2), &json!(2)));
        assert!(up["output"].as_str().unwrap().contains("Started"), "{up}");
        let set = environment(&lab, &web).await;
        assert_contains(&set, "\"WORD=one\"");
        assert_lacks(&set, "canary");

        let shown = json!({"project": project});
        let listed = succeed(&lab, "list_compose_projects", shown.clone()).await;
        let listed = &listed["projects"][0];
        assert_has!(listed, {"directory": shop.path(), "running": 2});
        wait_until("its log", async || {
            let log = succeed!(lab, "get_container_logs", {"project": project, "service": "web"});
            log["log"].as_str().unwrap().ends_with("| one")
        })
        .await;

        // A call that changes nothing needs no confirmation.
        succeed(&lab, "compose_up", arguments.clone()).await;
        // A change of a running project needs one; the other service is not changed.
        shop.write("compose.yml", &services("two"));
        let untouched = lab.id(&db).await;
        let (loss, up) = confirmed(&lab, "compose_up", arguments, &project).await;
        assert!(loss.contains("are recreated"), "{loss}");
        assert!(loss.contains(&web) && !loss.contains(&db), "{loss}");
        assert_eq!(up["running"], 2, "{up}");
        assert_contains(&environment(&lab, &web).await, "\"WORD=two\"");
        assert_eq!(lab.id(&db).await, untouched);

        let arguments = json!({"project": project, "action": "down", "volumes": true});
        let (loss, down) = confirmed(&lab, "compose_service", arguments, &project).await;
        assert!(
            loss.contains("2 containers") && loss.contains("permanently lost"),
            "{loss}"
        );
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

/// Compose removes neither what a container of others uses, nor says so.
#[tokio::test]
async fn objects_that_stay_when_a_project_is_taken_down_are_named() {
    let shop = Folder::new();
    for lab in labs(&shop).await.into_iter().take(1) {
        shop.write("compose.yml", &services("one"));
        let project = lab.name("kept");
        succeed!(lab, "compose_up", {"directory": shop.path(), "project": project});
        let (volume, network) = (format!("{project}_data"), format!("{project}_default"));
        let uses =
            json!({"HostConfig": {"Binds": [format!("{volume}:/data")], "NetworkMode": network}});
        let user = lab.sleep("user", uses).await;
        let arguments = json!({"project": project, "action": "down", "volumes": true});
        let (_, down) = confirmed(&lab, "compose_service", arguments, &project).await;
        assert!(down["removed_volumes"].is_null(), "{down}");
        for (kind, name) in [("volume", &volume), ("network", &network)] {
            let told = format!("The {kind} stayed, in use by {user}. remove_{kind} removes it");
            assert_starts_with(&down["failed"][name], &told);
        }
        lab.remove(&user).await;
        for (tool, kind, name) in [
            ("remove_volume", "volume", &volume),
            ("remove_network", "network", &network),
        ] {
            confirmed(&lab, tool, json!({kind: name}), name).await;
        }
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
    for lab in labs(&shop).await.into_iter().take(1) {
        let (project, image) = (lab.name("built"), format!("{}:1", lab.name("image")));
        shop.write("docker-compose.yml", &file.replace("IMAGE", &image));
        let web = lab.name("built-web-1");
        let up = succeed!(lab, "compose_up", {"directory": shop.path(), "project": project,
            "services": ["web"], "build": true});
        assert_eq!((&up["running"], &up["containers"]), (&json!(1), &json!(1)));
        let copied = succeed!(lab, "copy_from_container", {"container": web, "path": "/word"});
        assert!(copied.to_string().contains("built"), "{copied}");
        // It has the labels of the project, which its image has, too.
        lab.create("foreign", &["true"], json!({"Image": image}))
            .await;
        let shown = succeed!(lab, "list_compose_projects", {"project": project});
        assert_eq!(shown["projects"][0]["containers"], 1, "{shown}");
        let arguments = json!({"project": project, "action": "down"});
        let (_, down) = confirmed(&lab, "compose_service", arguments, &project).await;
        assert_eq!(texts(&down["removed_containers"]), [web]);
        assert!(
            down["removed_volumes"].is_null() && down["failed"].is_null(),
            "{down}"
        );
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

/// Files that `.env` names, a variable without a value, and a configuration whose text is in the file.
#[tokio::test]
async fn projects_of_odd_shapes_are_those_of_the_command() {
    let shop = Folder::new();
    let yaml = "services:\n  web:\n    image: busybox:test\n    command: [sleep, '600']\n    stop_grace_period: 0s\n    \
        environment: {A: base, EMPTY: $NOT_SET, DB_PASSWORD: canary-51}\n    configs: [{source: text, target: /text}]\n\
        configs: {text: {content: written by canary-51}}\n";
    shop.write("compose.yaml", yaml);
    shop.write("more.yaml", "services: {web: {environment: {A: more}}}\n");
    shop.write(".env", "COMPOSE_FILE=compose.yaml:more.yaml\n");
    for lab in labs(&shop).await {
        let (project, web) = (lab.name("odd"), lab.name("odd-web-1"));
        let up = json!({"directory": shop.path(), "project": project});
        let shown = succeed(&lab, "compose_config", up.clone()).await;
        assert_contains(&shown["warnings"][0], "NOT_SET");
        assert_eq!(
            shown["config"]["configs"]["text"]["content"],
            "written by ***"
        );
        assert_lacks(&shown.to_string(), "canary");
        let done = succeed(&lab, "compose_up", up.clone()).await;
        assert_contains(&done["output"], "NOT_SET");
        assert_contains(&environment(&lab, &web).await, "\"A=more\"");
        let text = succeed!(lab, "copy_from_container", {"container": web, "path": "/text"});
        assert_eq!(text["text"], "written by ***", "{text}");
        // Nothing is to be replaced.
        succeed(&lab, "compose_up", up.clone()).await;
        shop.write("more.yaml", "services: {web: {environment: {A: other}}}\n");
        assert_contains(&fail(&lab, "compose_up", up).await, "NOT_SET");
        shop.write("more.yaml", "services: {web: {environment: {A: more}}}\n");
    }
}

fn names(listed: &Value) -> Vec<String> {
    let projects = listed["projects"].as_array().unwrap().iter();
    projects
        .map(|project| project["project"].to_string())
        .collect()
}

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
    for lab in labs(&dir).await {
        let project = lab.name("shop");
        let shop = dir.path().join(&project);
        let [web, second, tools] =
            ["shop-web-1", "shop-web-2", "shop-tools-1"].map(|it| lab.name(it));
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
        assert_contains(&environment(&lab, &web).await, "\"WORD=a$b\"");
        let details = lab.inspect(&web).await;
        assert_eq!(details["Config"]["Labels"]["a$b"], "c$d");
        assert_eq!(details["State"]["Health"]["Status"], "healthy");

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
        let started = async |name: &str| lab.inspect(name).await["State"]["StartedAt"].clone();
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

        let arguments = json!({"project": project, "action": "down"});
        let (_, down) = confirmed(&lab, "compose_service", arguments, &project).await;
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

/// A project of two services, as compose would label it.
async fn project(lab: &Lab) -> String {
    let project = lab.name("shop");
    let labels = |service: &str| {
        let more = json!({"com.docker.compose.project.working_dir": "/srv/shop"});
        json!({"StopTimeout": 0, "Labels": merged(of_compose(&project, service), more)})
    };
    let script = "for i in 1 2 3; do echo web $i; sleep 0.2; done; sleep 600";
    lab.run("web", &["sh", "-c", script], labels("web")).await;
    let script = "sleep 0.1; for i in 1 2 3; do echo db $i; sleep 0.2; done; sleep 600";
    lab.run("db", &["sh", "-c", script], labels("db")).await;
    for name in ["web", "db"] {
        lab.until_written(&lab.name(name), " 3", 1).await;
    }
    project
}

#[tokio::test]
async fn projects_and_their_logs_are_shown_without_compose() {
    let Some(lab) = isolated_lab().await else {
        return;
    };
    let name = project(&lab).await;
    let listed = succeed(&lab, "list_compose_projects", json!({})).await;
    assert!(listed.to_string().contains(&name), "{listed}");
    let one = succeed!(lab, "list_compose_projects", {"project": name});
    let one = &one["projects"][0];
    assert_has!(one, {"running": 2, "containers": 2, "directory": "/srv/shop"});
    let services = one["services"].as_array().unwrap().iter();
    let services: Vec<_> = services.map(|row| &row["service"]).collect();
    assert_eq!(services, ["db", "web"]);
    fails_with!(lab, "list_compose_projects", {"project": "nope"}, "There is no compose project");

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
