//! `recreate_container`, and the options of `create_container` that it takes, too.

use serde_json::{Value, json};

use super::super::super::SERVER;
use super::super::super::lab::Lab;
use super::stdio_session::StdioSession;
use super::{confirmed, fail, lab, succeed};
use crate::harness::{Server, assert_contains, real, wait_until};

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

/// A new container that gets unhealthy after some seconds.
fn hopeless(web: &str) -> Value {
    json!({"container": web, "confirm": web, "timeout_seconds": 8, "changes":
        {"healthcheck": {"command": ["false"], "interval_seconds": 1, "retries": 4}}})
}

#[tokio::test]
async fn replacement_ends_without_its_caller_and_without_its_server() {
    let Some(mut lab) = lab().await else { return };
    let web = lab
        .run("web", &["sleep", "600"], json!({"StopTimeout": 0}))
        .await;
    let id = inspect(&lab, &web).await["Id"].clone();
    let is_back = async |lab: &Lab| {
        let now = lab.docker.inspect_container(&web, None).await;
        let now = serde_json::to_value(now.ok()).unwrap();
        now["Id"] == id && now["State"]["Running"] == true
    };
    for kill in [false, true] {
        let mut session = StdioSession::open(&lab.host, &[]).await;
        let call = session.start("recreate_container", hopeless(&web)).await;
        let accept = json!({"action": "accept", "content": {"confirm": true}});
        session.reply(accept).await;
        wait_until("the new one runs", async || {
            let now = lab.docker.inspect_container(&web, None).await;
            let now = serde_json::to_value(now.ok()).unwrap();
            now["Id"] != id && now["State"]["Running"] == true
        })
        .await;
        if kill {
            drop(session);
            let env = [("DOCKER_HOST", &*lab.host), ("MCP_TOOLSETS", "all")];
            let next = Server::start(SERVER, &env).await;
            wait_until("the old one is back", async || is_back(&lab).await).await;
            wait_until("it is told", async || {
                next.log().contains("was not replaced")
            })
            .await;
        } else {
            session.cancel(call).await;
            wait_until("the old one is back", async || is_back(&lab).await).await;
        }
        assert_eq!(names(&lab).await, std::slice::from_ref(&web));
    }
}
