//! `recreate_container`, and the options of `create_container` that it takes, too.

mod kept;
mod killed;

use std::collections::BTreeSet;

use bollard::query_parameters::RenameContainerOptionsBuilder;
use serde_json::{Value, json};

use super::super::super::SERVER;
use super::super::super::lab::Lab;
use super::super::super::proxy::Proxy;
use super::stdio_session::StdioSession;
use super::{confirmed, fail, lab, succeed, texts};
use crate::harness::{Server, assert_contains, assert_lacks, real, wait_until};

/// A server with all tools on each engine.
async fn labs() -> Vec<Lab> {
    let mut labs = Vec::new();
    for host in real::docker_engines() {
        labs.push(Lab::at(host, &[("MCP_TOOLSETS", "all")]).await);
    }
    labs
}

async fn inspect(lab: &Lab, name: &str) -> Value {
    let details = lab.docker.inspect_container(name, None).await.unwrap();
    serde_json::to_value(details).unwrap()
}

/// The names of the containers of this test.
async fn names(lab: &Lab) -> Vec<String> {
    let listed = succeed!(lab, "list_containers", {"name": lab.name(""), "all": true});
    let listed = listed["containers"].as_array().unwrap().iter();
    listed
        .map(|row| row["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn options_of_a_new_container_reach_the_engine() {
    for mut lab in labs().await {
        let name = lab.adopt("options");
        let created = succeed!(lab, "create_container", {"image": "busybox:test", "name": name,
            "command": ["sleep", "600"], "read_only": true, "tmpfs": ["/tmp:size=1m"],
            "cap_drop": ["ALL"], "no_new_privileges": true, "ulimits": {"nofile": 99}, "pids": 50,
            "dns": ["127.0.0.9"], "extra_hosts": ["db:127.0.0.8"], "init": false, "hostname": "box",
            "stop_signal": "SIGINT", "log_max_mb": 1, "log_max_files": 2, "restart": "on-failure",
            "restart_retries": 4, "healthcheck": {"command": ["true"], "interval_seconds": 1, "retries": 2}});
        assert_eq!(created["state"], "running", "{created}");
        let made = inspect(&lab, &name).await;
        let (config, host) = (&made["Config"], &made["HostConfig"]);
        assert_has!(host, {"ReadonlyRootfs": true, "PidsLimit": 50, "Dns": ["127.0.0.9"],
            "ExtraHosts": ["db:127.0.0.8"], "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 4}});
        assert_eq!(host["LogConfig"]["Config"]["max-size"], "1m", "{host}");
        assert!(
            host["SecurityOpt"][0]
                .as_str()
                .unwrap()
                .starts_with("no-new-privileges"),
            "{host}"
        );
        assert!(host["Ulimits"].to_string().contains("99"), "{host}");
        assert_has!(config, {"Hostname": "box"});
        assert_eq!(config["Healthcheck"]["Test"], json!(["CMD-SHELL", "true"]));
    }
}

#[tokio::test]
async fn container_is_replaced_with_its_options_and_data() {
    let podman = real::podman();
    let mut labs = labs().await;
    if let Some(host) = podman.clone() {
        labs.push(Lab::at(host, &[("MCP_TOOLSETS", "all")]).await);
    }
    for mut lab in labs {
        let script = "test -e /data/old || echo kept > /data/old; exec sleep 600";
        let mut more = json!({"StopTimeout": 0, "Env": ["A=1", "B=2"], "Volumes": {"/data": {}}, "Healthcheck":
            {"Test": ["CMD-SHELL", "test -e /data/old"], "Interval": 1_000_000_000},
            "HostConfig": {"Memory": 64 << 20, "RestartPolicy": {"Name": "unless-stopped"}}});
        let has_health = podman.as_ref() != Some(&lab.host);
        if !has_health {
            // Podman needs systemd for them.
            more.as_object_mut().unwrap().remove("Healthcheck");
        }
        let web = lab.run("web", &["sh", "-c", script], more).await;
        let before = inspect(&lab, &web).await;
        let arguments = json!({"container": web,
            "changes": {"env": {"B": "9", "C": "3", "A": null}, "memory_mb": 32, "ports": ["80"]}});
        let (loss, done) = confirmed(&lab, "recreate_container", arguments, &web).await;
        assert_contains(&loss, "loses its log");
        assert_has!(done, {"container": web, "state": "running"});
        assert_eq!(done["health"] == "healthy", has_health, "{done}");
        let after = inspect(&lab, &web).await;
        assert_ne!(after["Id"], before["Id"]);
        let env = after["Config"]["Env"].to_string();
        assert!(
            env.contains("B=9") && env.contains("C=3") && !env.contains("A=1"),
            "{env}"
        );
        assert_eq!(after["HostConfig"]["Memory"], 32 << 20);
        assert_eq!(
            after["HostConfig"]["RestartPolicy"]["Name"],
            "unless-stopped"
        );
        let volume = |at: &Value| at["Mounts"][0]["Name"].clone();
        assert_eq!(volume(&after), volume(&before));
        assert!(
            after["NetworkSettings"]["Ports"]["80/tcp"][0].is_object(),
            "{after}"
        );
        assert_eq!(names(&lab).await, [web]);
    }
}

#[tokio::test]
async fn old_container_comes_back_if_the_new_one_fails() {
    for mut lab in labs().await {
        let web = lab
            .run("web", &["sleep", "600"], json!({"StopTimeout": 0}))
            .await;
        let id = inspect(&lab, &web).await["Id"].clone();
        let unhealthy = json!({"healthcheck":
            {"command": ["echo not yet; false"], "interval_seconds": 1, "retries": 1}});
        for (changes, reason) in [
            (
                json!({"command": ["sh", "-c", "echo broken; exit 3"]}),
                "exit code 3",
            ),
            (json!({"command": ["/nowhere"]}), "not in the image"),
            (unhealthy, "not yet"),
            (json!({"network": "none", "image": "nowhere:1"}), "no image"),
            (
                json!({"privileged": true}),
                "does not create containers with",
            ),
            (
                json!({"mounts": ["/:/host"]}),
                "does not create containers with",
            ),
            (json!({"name": "other"}), "cannot be changed"),
            (json!({"imagee": "x"}), "unknown field"),
        ] {
            let arguments =
                json!({"container": web, "changes": changes, "confirm": web, "timeout_seconds": 9});
            fails_with!(lab, "recreate_container", arguments, reason);
            let now = inspect(&lab, &web).await;
            assert_eq!(
                (&now["Id"], &now["State"]["Running"]),
                (&id, &json!(true)),
                "{changes}"
            );
            assert_eq!(names(&lab).await, std::slice::from_ref(&web), "{changes}");
        }
        let removed = lab
            .run(
                "once",
                &["sleep", "600"],
                json!({"HostConfig": {"AutoRemove": true}}),
            )
            .await;
        fails_with!(lab, "recreate_container", {"container": removed}, "--rm");
        let host = lab
            .run(
                "host",
                &["sleep", "600"],
                json!({"HostConfig": {"PidMode": "host"}}),
            )
            .await;
        fails_with!(lab, "recreate_container", {"container": host, "confirm": host}, "namespace of the host");
    }
}

/// The log of the new one says what its environment holds, which has no shape of a secret.
#[tokio::test]
async fn log_of_a_failed_container_is_redacted_by_its_environment() {
    for mut lab in labs().await {
        let options = json!({"StopTimeout": 0, "Env": ["SIGNING=Wolkenbruch77"]});
        let web = lab.run("web", &["sleep", "600"], options).await;
        let command = json!(["sh", "-c", "echo got $SIGNING; exit 3"]);
        let health =
            json!({"command": ["echo saw $SIGNING; false"], "interval_seconds": 1, "retries": 1});
        for (changes, shown) in [
            (json!({"command": command}), "got ***"),
            (json!({"healthcheck": health}), "saw ***"),
        ] {
            let arguments = json!({"container": web, "changes": changes, "confirm": web});
            let error = fail(&lab, "recreate_container", arguments).await;
            assert_contains(&error, shown);
            assert_lacks(&error, "Wolkenbruch77");
        }
    }
}

/// Anonymous volumes have no name that a rule could allow and no label; they go with their container.
#[tokio::test]
async fn anonymous_volumes_are_kept_under_every_rule_and_as_they_were() {
    for mut lab in labs().await {
        let rule = format!("name={}*", lab.prefix);
        for (number, option) in [
            ("DOCKER_MCP_ALLOW", &*rule),
            ("DOCKER_MCP_ONLY_CREATED", "1"),
        ]
        .into_iter()
        .enumerate()
        {
            let hex = || uuid::Uuid::new_v4().simple().to_string();
            let anonymous = format!("{}{}:/b:ro", hex(), hex());
            let mounts = json!({"StopTimeout": 0, "Volumes": {"/a": {}}, "HostConfig": {"Binds": [anonymous]},
                "Labels": {"docker-mcp-server.created": "true"}});
            let name = format!("web{number}");
            let web = lab.run(&name, &["sleep", "600"], mounts).await;
            let volumes = async |lab: &Lab| {
                let details = inspect(lab, &web).await;
                let mounts = details["Mounts"].as_array().unwrap().iter();
                let mounts =
                    mounts.map(|at| format!("{} {} {}", at["Name"], at["Destination"], at["RW"]));
                mounts.collect::<BTreeSet<_>>()
            };
            let before = volumes(&lab).await;
            assert_eq!(before.len(), 2, "{before:?}");
            let env = [("DOCKER_HOST", &*lab.host), ("MCP_TOOLSETS", "all"), option];
            let bounded = Server::start(SERVER, &env).await;
            for _ in 0..2 {
                succeed!(bounded, "recreate_container", {"container": web, "confirm": web});
                assert_eq!(volumes(&lab).await, before);
            }
        }
    }
}

/// Labels and names by which this server knows its own objects are not a caller's to give.
#[tokio::test]
async fn marks_of_this_server_are_refused() {
    let Some(mut lab) = lab().await else { return };
    let web = lab.create("web", &["true"], json!({})).await;
    let marked = json!({"docker-mcp-server.created": "true"});
    let kept = format!("{web}.before-0123456789ab");
    for (tool, arguments) in [
        (
            "create_container",
            json!({"image": "busybox:test", "labels": marked}),
        ),
        (
            "create_container",
            json!({"image": "busybox:test", "name": kept}),
        ),
        (
            "create_network",
            json!({"network": lab.name("x"), "labels": marked}),
        ),
        (
            "create_volume",
            json!({"volume": lab.name("x"), "labels": marked}),
        ),
        (
            "update_container",
            json!({"container": web, "new_name": kept}),
        ),
        (
            "recreate_container",
            json!({"container": web, "confirm": web, "changes": {"labels": marked}}),
        ),
    ] {
        let error = fail(&lab, tool, arguments).await;
        let names_mark = error.contains("docker-mcp-server.") || error.contains(".before-");
        assert!(names_mark, "{tool}: {error}");
    }
}

/// A replacement that has not ended may need its old container.
#[tokio::test]
async fn prune_leaves_the_old_container_of_a_replacement() {
    let Some(mut lab) = lab().await else { return };
    let web = lab.create("web", &["true"], json!({})).await;
    let id = inspect(&lab, &web).await["Id"].as_str().unwrap().to_owned();
    let kept = format!("{web}.before-{}", &id[..12]);
    // A server that starts meanwhile would bring it back.
    let lock = std::env::temp_dir().join(format!("docker-mcp-server-{id}.lock"));
    let lock = std::fs::File::create(lock).unwrap();
    lock.lock().unwrap();
    let other = lab
        .create("other.before-0123456789ab", &["true"], json!({}))
        .await;
    let options = RenameContainerOptionsBuilder::new().name(&kept).build();
    lab.docker.rename_container(&web, options).await.unwrap();
    let pruned = succeed!(lab, "prune", {"what": "containers"});
    let items = texts(&pruned["items"]);
    assert!(
        !items.contains(&&*kept) && items.contains(&&*other),
        "{items:?}"
    );
    lab.remove(&kept).await;
}
