//! The operator's policy: forbidden calls, and calls that are refused unless the operator allows them. Paths of the host
//! that a container mounts are checked again when this server starts it.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::recreate::until_runs;
use crate::docker::prelude::*;

/// Options that reach out of a container.
fn dangerous() -> Vec<Value> {
    vec![
        json!({"privileged": true}),
        json!({"network": "host"}),
        json!({"network": "container:web"}),
        json!({"pid": "host"}),
        json!({"ipc": "host"}),
        json!({"pid": "container:web"}),
        json!({"cap_add": ["SYS_ADMIN"]}),
        json!({"cap_add": ["all"]}),
        json!({"mounts": ["/:/host"]}),
        json!({"mounts": ["/:/host:ro"]}),
        json!({"mounts": ["//:/host"]}),
        json!({"mounts": ["/srv/..:/host"]}),
        json!({"mounts": ["/etc:/x"]}),
        json!({"mounts": ["/var/run/docker.sock:/var/run/docker.sock"]}),
        json!({"mounts": ["/run:/run"]}),
    ]
}

/// Without a policy file, and with one, which allows only what it names.
#[tokio::test]
async fn containers_that_reach_the_host_are_refused() {
    let dir = Folder::new();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let policy = json!({"create": {"binds": [data], "capabilities": ["NET_ADMIN"]}}).to_string();
    let policy = dir.write("policy.json", &policy);
    let env = [("DOCKER_MCP_POLICY", policy.to_str().unwrap())];
    let (Some(lab), Some(allowing)) = (lab().await, lab_with(&env).await) else {
        return;
    };
    for server in [&lab, &allowing] {
        for options in dangerous() {
            let name = lab.name("bad");
            let arguments = json!({"image": "busybox:test", "name": name, "command": ["true"]});
            let error = fail(server, "create_container", merged(arguments, options)).await;
            assert_contains(&error, "does not create containers with");
            assert!(lab.inspect(&name).await.is_null(), "{error}");
        }
    }
    for mount in r"./x:/y|x:y|x:/y:ro:z|..:/x||x|x:|~:/y|x:/y:z|\x:/y|x:/y:ro,rshared".split('|') {
        let arguments = json!({"image": "busybox:test", "mounts": [mount]});
        invalid(&lab, "create_container", arguments).await;
    }
    succeed!(allowing, "create_container", {"image": "busybox:test", "name": lab.name("ok"),
        "cap_drop": ["ALL"], "cap_add": ["net_admin", "CAP_CHOWN", "DAC_OVERRIDE"], "command": ["sh", "-c", "echo x > /x/y"],
        "mounts": [format!("{}:/x", data.display())]});
    wait_until("its file", async || {
        fs::read(data.join("y")).is_ok_and(|text| text == b"x\n")
    })
    .await;
}

/// A container that may write to an allowed directory can make a link in it that leads anywhere.
#[tokio::test]
async fn link_in_an_allowed_directory_is_refused_as_a_bind() {
    let dir = Folder::new();
    let policy = policy(&dir);
    let Some(lab) = lab_with(&[("DOCKER_MCP_POLICY", &policy)]).await else {
        return;
    };
    let source = |path: &str| format!("{}/data{path}:/w", dir.str());
    let name = lab.name("linker");
    succeed!(lab, "create_container", {"image": "busybox:test", "name": name,
        "command": ["ln", "-s", "/", "/w/link"], "mounts": [source("")]});
    wait_until("its link", async || {
        dir.path().join("data/link").is_symlink()
    })
    .await;
    let thief = lab.name("thief");
    let asked = |path: &str| {
        json!({"image": "busybox:test", "name": thief, "command": ["ls", "/w"],
            "mounts": [source(path)]})
    };
    let refused = "of the host: that would give access";
    for path in "/link /link/etc /folder/../link /./link /link/ /link/. //link//".split(' ') {
        let error = fail(&lab, "create_container", asked(path)).await;
        assert_contains(&error, refused);
    }
    let changes = json!({"mounts": [source("/link")]});
    fails_with!(lab, "recreate_container", {"container": name, "changes": changes, "confirm": name}, refused);
    succeed(&lab, "create_container", asked("/folder/")).await;
}

/// Calls of tools that are listed without those that can only lose data: the ones that would lose some are refused.
const WITHOUT_LOSS: &str = r#"
copy_to_container | {"container": "P-web", "path": "/tmp/new", "text": "one"} | bytes
copy_to_container | {"container": "P-web", "path": "/tmp/new", "text": "one", "confirm": "/tmp/new"} | ! no-destructive
prune | {"what": "containers"} | {"applied": false}
prune | {"what": "containers", "apply": true, "confirm": "containers"} | ! no-destructive
update_container | {"container": "P-web", "memory_mb": 6} | ! no-destructive
update_container | {"container": "P-web", "restart": "always"} | {"changed": ["restart"]}
"#;

#[tokio::test]
async fn no_destructive_prevents_data_loss() {
    let dir = Folder::new();
    let policy = dir.write("policy.json", r#"{"no_destructive": true}"#);
    // By the variable, and by the file.
    for (name, value) in [
        ("DOCKER_MCP_NO_DESTRUCTIVE", "1"),
        ("DOCKER_MCP_POLICY", policy.to_str().unwrap()),
    ] {
        let Some(lab) = lab_with(&[(name, value)]).await else {
            return;
        };
        let name = lab.sleep("web", json!({})).await;
        // Tools that can only lose data are not listed.
        let listed = lab.server.result("tools/list", json!({})).await;
        let listed = listed["tools"].as_array().unwrap().iter();
        let destructive = listed.filter(|tool| tool["annotations"]["destructiveHint"] == true);
        let destructive = destructive.map(|tool| tool["name"].as_str().unwrap());
        let destructive: Vec<_> = destructive.collect();
        let partly = "update_container copy_to_container build_image tag_image connect_network compose_service prune";
        assert_eq!(destructive.join(" "), partly);
        let removal = json!({"container": name, "force": true, "confirm": name});
        invalid(&lab, "remove_container", removal).await;
        lab.steps(WITHOUT_LOSS, &[]).await;
    }
}

#[tokio::test]
async fn server_does_not_change_its_own_container() {
    let Some(lab) = lab().await else { return };
    let own = lab.sleep("own", json!({})).await;
    let id = &lab.id(&own).await[..12];
    // As in that container: its hostname is the beginning of its id.
    let script = format!("echo {id} > /proc/sys/kernel/hostname && exec \"$0\" --stdio");
    let mut command = tokio::process::Command::new("unshare");
    command.args(["--uts", "sh", "-c", &script]);
    command.arg(binary(SERVER));
    let mut session = StdioSession::with(command, &lab.host, &[]).await;
    let changes = calls_on(&own).into_iter();
    for (_, tool, _, arguments) in changes.filter(|row| row.2 != Use::Reads) {
        let id = session.start(tool, arguments).await;
        let text = session.answer(id).await.to_string();
        assert!(text.contains("this server runs in"), "{tool}: {text}");
    }
    assert_eq!(lab.state(&own).await, "running");
}

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
    let Some(lab) = lab_with(&[("DOCKER_MCP_POLICY", &policy)]).await else {
        return;
    };
    let bounded = in_front_of(&lab.host, &[]).await;
    let folder = dir.path().join("data/folder");
    let mount = format!("{}:/f", folder.display());
    let labels = of_compose(&lab.name("shop"), "web");
    let ours = lab.name("ours");
    succeed!(lab, "create_container", {"image": "busybox:test", "name": ours, "mounts": [mount],
        "command": ["sleep", "600"], "labels": labels});
    let options = json!({"HostConfig": {"Binds": [mount]}, "Labels": labels});
    let theirs = lab.sleep("theirs", options).await;
    let mounts = json!([{"Type": "bind", "Source": folder, "Target": "/f"}]);
    let options = json!({"HostConfig": {"Mounts": mounts}, "Labels": labels});
    let mounted = lab.sleep("mounted", options).await;
    for name in [&ours, &theirs, &mounted] {
        let now = json!({"container": name, "timeout_seconds": 0});
        swap(&folder);
        // It still runs, with what it had.
        fails_with!(lab, "restart_container", now, REFUSAL);
        assert_eq!(lab.state(name).await, "running");
        let arguments = json!({"container": name, "confirm": name});
        fails_with!(lab, "recreate_container", arguments, "of the host: that");
        succeed(&lab, "stop_container", now.clone()).await;
        fails_with!(lab, "start_container", {"container": name}, REFUSAL);
        fails_with!(lab, "restart_container", now, REFUSAL);
        let action = json!({"project": lab.name("shop"), "action": "start"});
        fails_with!(lab, "compose_service", action, REFUSAL);
        assert_eq!(lab.state(name).await, "exited");
        swap_back(&folder);
        // Only what this server has created was checked before.
        if *name == ours {
            fails_with!(bounded, "start_container", {"container": name}, REFUSAL);
        }
        succeed!(lab, "start_container", {"container": name});
        succeed(&lab, "restart_container", now).await;
        assert_eq!(lab.state(name).await, "running");
    }
}

/// The engine mounts again what it copies to and from.
#[tokio::test]
async fn link_that_was_put_in_place_of_a_mount_is_neither_written_nor_read() {
    let (dir, outside) = (Folder::new(), Folder::new());
    let policy = policy(&dir);
    let env = [("DOCKER_MCP_POLICY", &*policy)];
    let Some(lab) = lab_with(&env).await else {
        return;
    };
    let folder = dir.path().join("data/folder");
    dir.write("data/folder/x", "old");
    outside.write("x", "canary-61");
    let swap = || {
        fs::rename(&folder, folder.with_extension("old")).unwrap();
        symlink(outside.path(), &folder).unwrap();
    };
    let web = lab.name("web");
    let mount = format!("{}:/f", folder.display());
    succeed!(lab, "create_container", {"image": "busybox:test", "name": web, "mounts": [mount],
        "command": ["sleep", "600"]});
    succeed!(lab, "copy_to_container", {"container": web, "path": "/f/y", "text": "new"});
    succeed!(lab, "copy_from_container", {"container": web, "path": "/f/y"});
    swap();
    fails_with!(lab, "copy_to_container", {"container": web, "path": "/f/z", "text": "new"}, "a file of the host");
    fails_with!(lab, "copy_from_container", {"container": web, "path": "/f/x"}, REFUSAL);
    swap_back(&folder);

    // While the user is asked.
    let mut session = StdioSession::open(&lab.host, &env).await;
    let asked = json!({"container": web, "path": "/f/x", "text": "new"});
    let id = session.start("copy_to_container", asked).await;
    let question = session.until("elicitation/create").await;
    swap();
    let answer = json!({"action": "accept", "content": {"confirm": true}});
    let answer = response(&question["id"], "result", answer);
    session.say(answer).await;
    let answer = session.answer(id).await.to_string();
    assert_contains(&answer, "a file of the host");
    let found = fs::read_dir(outside.path()).unwrap().count();
    assert_eq!(
        (found, fs::read(outside.path().join("x")).unwrap()),
        (1, b"canary-61".to_vec())
    );
}

/// A container that puts the link there when it is asked to end.
fn swapper(dir: &Folder) -> (Vec<&'static str>, Vec<String>) {
    let script = "trap 'mv /w/folder /w/folder.old; ln -s /etc /w/folder; exit' TERM; echo ready; \
        while :; do sleep 0.1; done";
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
    let Some(lab) = lab_with(&env).await else {
        return;
    };
    let folder = dir.path().join("data/folder");
    let (command, mounts) = swapper(&dir);
    let web = lab.name("web");
    let shop = lab.name("shop");
    succeed!(lab, "create_container", {"image": "busybox:test", "name": web, "mounts": mounts, "command": command,
        "labels": of_compose(&shop, "web")});
    for (runs, tool) in [(1, "restart_container"), (2, "compose_service")] {
        lab.until_written(&web, "ready", runs).await;
        let arguments = match tool {
            "compose_service" => json!({"project": shop, "action": "restart"}),
            _ => json!({"container": web, "timeout_seconds": 60}),
        };
        fails_with!(
            lab,
            tool,
            arguments,
            REFUSAL,
            "was stopped, and does not run now"
        );
        assert_eq!(lab.state(&web).await, "exited");
        swap_back(&folder);
        succeed!(lab, "start_container", {"container": web});
    }

    // Neither the new container nor, on the way back, the old one.
    lab.until_written(&web, "ready", 3).await;
    let id = lab.id(&web).await;
    fails_with!(lab, "recreate_container", {"container": web, "confirm": web},
        "bringing back the old container failed, too");
    assert_eq!(lab.state(&id).await, "exited");
    // The next server brings it back once that is possible.
    swap_back(&folder);
    let _next = in_front_of(&lab.host, &env).await;
    until_runs(&lab, &web, &id, true).await;
}

/// Compose mounts the files of secrets and configurations.
#[tokio::test]
async fn link_in_place_of_a_secret_is_not_followed() {
    let dir = Folder::new();
    let policy = policy(&dir);
    let data = dir.path().join("data");
    let env = [
        ("DOCKER_MCP_POLICY", &*policy),
        ("DOCKER_MCP_PROJECT_DIR", dir.str()),
    ];
    for lab in labs(&env).await {
        let project = lab.name("shop");
        let web = lab.name("shop-web-1");
        for kind in ["secrets", "configs"] {
            let file = dir.write("data/x.txt", "x");
            let yaml = format!(
                "services: {{web: {{image: 'busybox:test', command: [sleep, '600'], stop_grace_period: 0s, \
                 {kind}: [x]}}}}\n{kind}: {{x: {{file: ./x.txt}}}}\n"
            );
            succeed!(lab, "compose_up", {"directory": data, "project": project, "yaml": yaml, "confirm": project});
            fs::remove_file(&file).unwrap();
            symlink("/etc/hostname", &file).unwrap();
            let restart = json!({"project": project, "action": "restart"});
            fails_with!(lab, "compose_service", restart, REFUSAL);
            // Nothing was stopped, since it could not be started again.
            assert_eq!(lab.state(&web).await, "running");
            succeed!(lab, "compose_service", {"project": project, "action": "down", "confirm": project});
            fs::remove_file(&file).unwrap();
        }
    }
}
