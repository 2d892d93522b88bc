//! Compose projects: those that are found by labels, and `compose_up` with the real compose program, of files and of texts,
//! with the other actions after it.

use std::os::unix::fs::PermissionsExt as _;

use crate::docker::prelude::*;

async fn environment(lab: &Lab, container: &str) -> String {
    lab.inspect(container).await["Config"]["Env"].to_string()
}

/// Compose removes neither what a container of others uses, nor says so.
#[tokio::test]
async fn objects_that_stay_when_a_project_is_taken_down_are_named() {
    let shop = Folder::new();
    for lab in project_labs(&shop).await.into_iter().take(1) {
        shop.write("compose.yml", &yaml("one"));
        let project = lab.name("kept");
        succeed!(lab, "compose_up", {"directory": shop.path(), "project": project});
        let (volume, network) = (format!("{project}_data"), format!("{project}_default"));
        let uses =
            json!({"HostConfig": {"Binds": [format!("{volume}:/data")], "NetworkMode": network}});
        let user = lab.sleep("user", uses).await;
        let arguments = json!({"project": project, "action": "down", "volumes": true});
        let (loss, down) = confirmed(&lab, "compose_service", arguments, &project).await;
        assert_contains(&loss, &format!(". These stay, in use by others: {volume}"));
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
    for lab in project_labs(&shop).await.into_iter().take(1) {
        let (project, image) = (lab.name("built"), format!("{}:1", lab.name("image")));
        shop.write("docker-compose.yml", &file.replace("IMAGE", &image));
        let web = lab.name("built-web-1");
        let up = succeed!(lab, "compose_up", {"directory": shop.path(), "project": project,
            "services": ["web"], "build": true});
        assert_has!(up, {"running": 1, "containers": 1});
        let copied = succeed!(lab, "copy_from_container", {"container": web, "path": "/word"});
        assert_has!(copied, {"text": "built"});
        // It has the labels of the project, which its image has, too.
        lab.create("foreign", &["true"], json!({"Image": image}))
            .await;
        let shown = succeed!(lab, "list_compose_projects", {"project": project});
        assert_eq!(shown["projects"][0]["containers"], 1, "{shown}");
        let arguments = json!({"project": project, "action": "down"});
        let (_, down) = confirmed(&lab, "compose_service", arguments, &project).await;
        assert_has!(down, {"removed_containers": [web], "removed_volumes": null, "failed": null});
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
    for lab in project_labs(&shop).await {
        for (file, [what, word]) in wrong {
            shop.write("compose.yml", file);
            let arguments = json!({"directory": shop.path(), "project": lab.name("bad")});
            fails_with!(lab, "compose_up", arguments, what, word);
        }
        assert_lacks(
            &succeed!(lab, "list_compose_projects", {}),
            &lab.name("bad"),
        );
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
    for lab in project_labs(&shop).await {
        let (project, web) = (lab.name("odd"), lab.name("odd-web-1"));
        let up = json!({"directory": shop.path(), "project": project});
        let shown = succeed(&lab, "compose_config", up.clone()).await;
        assert_contains(&shown["warnings"][0], "NOT_SET");
        assert_has!(shown["config"]["configs"], {"text": {"content": "written by ***"}});
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

/// The text of a compose file, with this word in the environment.
fn yaml(word: &str) -> String {
    format!(
        r#"services:
  web:
    image: busybox:test
    command: [sh, -c, "echo $$WORD; sleep 600"]
    stop_grace_period: 0s
    environment: {{ WORD: "{word}", DB_PASSWORD: canary-41, LEAK: "${{APP_WORD:-}}${{SSH_AUTH_SOCK:-}}" }}
    volumes: ["data:/data"]
    labels: {{ "a$b": "c$$d" }}
    healthcheck: {{ test: [CMD, "true"], interval: 1s }}
  tools:
    image: busybox:test
    command: [sleep, "600"]
    stop_grace_period: 0s
    profiles: [debug]
    volumes: ["/unnamed"]
volumes:
  data:
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
async fn project_is_deployed_from_text_changed_and_removed() {
    let dir = Folder::new();
    for lab in project_labs(&dir).await {
        let project = lab.name("shop");
        let shop = dir.path().join(&project);
        let [web, second, tools] =
            ["shop-web-1", "shop-web-2", "shop-tools-1"].map(|it| lab.name(it));
        let named = json!({"directory": shop, "project": project});
        // What is not allowed leaves nothing behind.
        let bad = "services: {web: {image: 'busybox:test', privileged: true}}";
        let refused = merged(named.clone(), json!({"yaml": bad}));
        fails_with!(lab, "compose_up", refused, "privileged");
        assert!(!shop.exists());

        let deploy = merged(named.clone(), json!({"yaml": yaml("a$$b"), "wait": true}));
        let up = succeed(&lab, "compose_up", deploy.clone()).await;
        let file = shop.join("compose.yaml");
        assert_has!(up, {"running": 1, "containers": 1, "written": file});
        assert_eq!(fs::read_to_string(&file).unwrap(), yaml("a$$b"));
        let set = environment(&lab, &web).await;
        assert_contains(&set, "\"WORD=a$b\"");
        // It is in the environment of the server.
        assert_lacks(&set, "canary-11");
        assert_has!(lab.inspect(&web).await, {"Config": {"Labels": {"a$b": "c$d"}},
            "State": {"Health": {"Status": "healthy"}}});

        let shown = succeed(&lab, "compose_config", named.clone()).await;
        assert_has!(shown, {"project": project, "refused": null, "redacted": 1});
        assert_has!(shown["config"]["services"], {"web": {"environment": {"WORD": "a$b"}}, "tools": null});
        assert_lacks(&shown, "canary");
        let profile = json!({"profiles": ["debug"], "services": ["tools"]});
        let chosen = merged(named.clone(), profile.clone());
        let shown = succeed(&lab, "compose_config", chosen).await;
        assert_has!(shown["config"]["services"], {"tools": {"command": "sleep 600"}});

        let listed = succeed!(lab, "list_compose_projects", {"project": project});
        assert_has!(listed["projects"][0], {"directory": shop, "running": 1});
        wait_until("its log", async || {
            let log = succeed!(lab, "get_container_logs", {"project": project, "service": "web"});
            log["log"].as_str().unwrap().ends_with("| a$b")
        })
        .await;

        // A call that changes nothing needs no confirmation, nor does a further service.
        succeed(&lab, "compose_up", named.clone()).await;
        let more = merged(named.clone(), profile);
        let up = succeed(&lab, "compose_up", more).await;
        assert_has!(up, {"running": 2});
        assert_contains(&up["output"], "Started");
        let untouched = lab.id(&tools).await;
        // The service of another profile is one of the project.
        let mark = json!({"docker-mcp-server.created": "true"});
        let gone = json!({"Labels": merged(of_compose(&project, "gone"), mark)});
        let orphan = lab.sleep("orphan", gone).await;
        let up = succeed(&lab, "compose_up", named.clone()).await;
        let told = format!("Found orphan containers ({orphan}) for this project");
        assert_contains(&up["output"], &told);
        lab.remove(&orphan).await;
        // Another text is written, and containers are replaced, once the user agrees.
        let other = merged(deploy, json!({"yaml": yaml("two"), "scale": {"web": 2}}));
        let (loss, up) = confirmed(&lab, "compose_up", other, &project).await;
        for part in ["are recreated", "Overwrites", &web] {
            assert_contains(&loss, part);
        }
        assert_lacks(&loss, &tools);
        assert_has!(up, {"running": 3});
        assert_eq!(lab.id(&tools).await, untouched);
        assert_eq!(fs::read_to_string(&file).unwrap(), yaml("two"));
        let running = ["tools running", "web running", "web running"];
        assert_eq!(states(&lab, &project).await, running);
        let wrong = merged(named, json!({"confirm": project, "scale": {"nope": 2}}));
        fails_with!(lab, "compose_up", wrong, "nope");

        let act = async |action: &str, service: &str| {
            let done = succeed!(lab, "compose_service", {"project": project, "service": service, "action": action});
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
        let pulled = succeed!(lab, "compose_service", {"project": project, "service": "web", "action": "pull"});
        // The engine of the tests reaches no registry.
        assert!(pulled["failed"]["busybox:test"].is_string(), "{pulled}");

        let unnamed = json!({"volume": lab.inspect(&tools).await["Mounts"][0]["Name"]});
        succeed(&lab, "list_volumes", unnamed.clone()).await;
        let arguments = json!({"project": project, "action": "down", "volumes": true});
        let (loss, down) = confirmed(&lab, "compose_service", arguments, &project).await;
        fails_with!(lab, "list_volumes", unnamed, "There is no volume");
        assert_contains(&loss, "3 containers");
        assert_contains(&loss, "permanently lost");
        assert_has!(down, {"removed_containers": [tools, web, second], "removed_networks": [format!("{project}_default")],
            "removed_volumes": [format!("{project}_data")], "failed": null});
        fails_with!(lab, "list_compose_projects", {"project": project}, "There is no compose project");
    }
}

#[tokio::test]
async fn text_is_not_written_through_links_or_outside() {
    let (dir, outside) = (Folder::new(), Folder::new());
    for lab in project_labs(&dir).await {
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
            fails_with!(lab, "compose_up", arguments, reason);
        }
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        fs::remove_file(dir.path().join("link")).unwrap();
        fs::remove_file(dir.path().join("shop/compose.yml")).unwrap();
    }
}

/// Words of a compose program about a dry run, its exit code, and whether the user is asked about the container `NAME`
/// before it is brought up.
const DRY_RUNS: [(&str, u8, bool); 5] = [
    ("Container NAME  Running", 0, false),
    ("", 0, true),
    ("Container NAME  Replaced", 0, true),
    ("NAME was replaced", 0, true),
    ("Container NAME  Running", 1, false),
];

/// A program whose words are not known, or that fails, tells nothing of what is lost.
#[tokio::test]
async fn silence_of_a_dry_run_counts_as_a_loss() {
    let dir = Folder::new();
    dir.write("shop/compose.yml", "services: {}");
    let script = "#!/bin/sh\ncase \" $* \" in ' version ') echo v2.30.1;;\n*' config '*) \
        echo \"{\\\"name\\\": \\\"$4\\\", \\\"services\\\": {\\\"web\\\": {\\\"image\\\": \\\"busybox:test\\\"}}}\";;\n\
        *' --dry-run '*) cat \"${0%/*}/said\"; exit \"$(cat \"${0%/*}/code\")\";; esac\n";
    let program = dir.write("bin/docker-compose", script);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}/bin:/usr/bin:/bin", dir.str());
    let env = [
        ("PATH", path.as_str()),
        ("DOCKER_MCP_PROJECT_DIR", dir.str()),
    ];
    let Some(lab) = lab_with(&env).await else {
        return;
    };
    let project = lab.name("shop");
    let web = lab
        .sleep("web", json!({"Labels": of_compose(&project, "web")}))
        .await;
    let up = json!({"directory": dir.path().join("shop"), "project": project});
    let down = json!({"project": project, "action": "down"});
    for (said, code, is_asked) in DRY_RUNS {
        dir.write("bin/said", &said.replace("NAME", &web));
        dir.write("bin/code", &code.to_string());
        let [up, down] = [("compose_up", &up), ("compose_service", &down)]
            .map(|(tool, arguments)| refusal(&lab, tool, arguments));
        let (up, down) = (up.await, down.await);
        let lost = format!(
            "are recreated or removed, and lose the files that they wrote outside of volumes: {web}."
        );
        assert_eq!(up.contains(&lost), is_asked, "{said}: {up}");
        let lost = match code {
            0 => format!(
                "1 containers of `{project}`, with their logs and the files they wrote: {web}."
            ),
            _ => "It is not known what `down`".to_owned(),
        };
        assert_contains(&down, &lost);
        assert_eq!(up.contains("did not come up"), code != 0, "{up}");
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
    let Some(lab) = own_lab().await else { return };
    let name = project(&lab).await;
    // A single command is of the project, and no part of its service. A container whose image compose has built has some
    // of the labels.
    let once = merged(
        of_compose(&name, "db"),
        json!({"com.docker.compose.oneoff": "True"}),
    );
    lab.finish("once", &["echo", "once"], json!({"Labels": once}))
        .await;
    let built = json!({"com.docker.compose.project": name, "com.docker.compose.service": "db"});
    lab.run("foreign", &["echo", "foreign"], json!({"Labels": built}))
        .await;
    assert_contains(&succeed!(lab, "list_compose_projects", {}), &name);
    let one = succeed!(lab, "list_compose_projects", {"project": name});
    let one = &one["projects"][0];
    assert_has!(one, {"running": 2, "containers": 3, "directory": "/srv/shop"});
    assert_eq!(
        member_texts(&one["services"], "service"),
        ["db", "db", "web"]
    );
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

const WITHOUT_PROGRAMS: &str = r#"
compose_up | {"directory": "DIR/Shop_1", "project": "P-shop"} | ! There is no compose program
compose_up | {"directory": "/etc"} | ! outside
build_image | {"tag": "P-x:1", "dockerfile": "FROM scratch"} | ! There is no build program & install `docker buildx`
"#;

#[tokio::test]
async fn compose_up_needs_a_program_and_a_directory() {
    let dir = Folder::new();
    let shop = dir.path().join("Shop_1");
    dir.write("Shop_1/compose.yml", "services: {}");
    let text = dir.str();
    let policy = dir.write("policy.json", r#"{"create": {"host_namespaces": true}}"#);
    let env = [
        ("DOCKER_MCP_PROJECT_DIR", dir.str()),
        ("DOCKER_MCP_POLICY", policy.to_str().unwrap()),
        ("PATH", "/nowhere"),
    ];
    let Some(lab) = lab_with(&env).await else {
        return;
    };
    lab.steps(WITHOUT_PROGRAMS, &[("DIR", dir.str())]).await;

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
        ("APP_WORD", "canary-10"),
    ];
    let lab = Lab::at(lab.host.clone(), &env).await;
    let up = succeed!(lab, "compose_up", {"directory": shop, "services": ["web"], "build": true});
    let output = up["output"].as_str().unwrap();
    for part in [
        "-p shop_1 --project-directory",
        "-f - up -d --build web",
        "/Shop_1\n",
        "DOCKER_HOST=unix://",
    ] {
        assert_contains(output, part);
    }
    assert_lacks(output, "canary-10");
    fails_with!(lab, "compose_up", {"directory": shop, "project": "bad"}, "did not come up");
}
