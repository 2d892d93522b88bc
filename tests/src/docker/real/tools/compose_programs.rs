//! The programs that `compose_up` and `compose_service` start: they end with the call and with the server, and a restart
//! is ended without its caller.

use crate::docker::prelude::*;

/// The health check of a project that never becomes healthy.
const NEVER: &str = "healthcheck: {test: ['CMD', 'false'], interval: 1s, retries: 1000}";

/// The number of programs of this project that run.
fn programs(project: &str) -> usize {
    processes_with(&format!("-p\0{project}\0"))
}

/// With `docker-compose`, and with `docker compose`, which starts its plugin.
#[tokio::test]
async fn programs_end_with_the_call_and_with_the_server() {
    let (Some(host), Some(compose), Some((_, docker))) =
        (real::docker(), real::compose_dir(), real::ssh())
    else {
        return;
    };
    let dir = Folder::new();
    dir.write("shop/compose.yml", &web_project(NEVER, ""));
    dir.write("config/config.json", "{}");
    dir.write("bin/x", "");
    std::os::unix::fs::symlink(docker, dir.path().join("bin/docker")).unwrap();
    dir.write("config/cli-plugins/x", "");
    let (plugin, link) = (
        format!("{compose}/docker-compose"),
        "config/cli-plugins/docker-compose",
    );
    std::os::unix::fs::symlink(plugin, dir.path().join(link)).unwrap();
    let config = dir.path().join("config");
    // The sandbox hides the plugins of other directories.
    let elsewhere = json!({"cliPluginsExtraDirs": [compose]}).to_string();
    dir.write("elsewhere/config.json", &elsewhere);
    let [elsewhere, bin] = ["elsewhere", "bin"].map(|name| format!("{}/{name}", dir.str()));
    let env = [
        ("PATH", &*bin),
        ("DOCKER_CONFIG", &elsewhere),
        ("DOCKER_MCP_PROJECT_DIR", dir.str()),
    ];
    let lab = Lab::at(host.clone(), &env).await;
    let shop = dir.path().join("shop");
    fails_with!(lab, "compose_config", {"directory": shop}, "`cli-plugins`");
    for path in [compose, format!("{}/bin", dir.str())] {
        let env = [
            ("PATH", path.as_str()),
            ("DOCKER_CONFIG", config.to_str().unwrap()),
            ("DOCKER_MCP_PROJECT_DIR", dir.str()),
        ];
        let lab = Lab::at(host.clone(), &env).await;
        let project = lab.name("never");
        let directory = dir.path().join("shop");
        let up = json!({"directory": directory, "project": project, "confirm": project});
        // The next ones have nothing to do but to wait.
        succeed(&lab, "compose_up", up.clone()).await;
        let up = merged(up, json!({"wait": true}));
        let short = merged(up.clone(), json!({"timeout_seconds": 5}));
        let text = fail(&lab, "compose_up", short).await;
        assert!(text.contains("did not end within 5 s"), "{text}");
        wait_until("the programs end", async || programs(&project) == 0).await;

        for how in ["cancel", "stop"] {
            let mut session = StdioSession::open(&lab.host, &env).await;
            let id = session.start("compose_up", up.clone()).await;
            wait_until("compose runs", async || programs(&project) > 0).await;
            match how {
                "cancel" => session.cancel(id).await,
                _ => session.terminate(),
            }
            wait_until("the programs end", async || programs(&project) == 0).await;
        }
    }
}

/// It is stopped and started in two steps, since it mounts a path of the host.
#[tokio::test]
async fn restart_ends_without_its_caller() {
    let Some(lab) = lab().await else { return };
    let (project, dir) = (lab.name("shop"), Folder::new());
    let bind = format!("{}:/x", dir.str());
    let more = json!({"StopTimeout": 9, "HostConfig": {"Binds": [bind]},
        "Labels": of_compose(&project, "web")});
    let script = "trap 'echo stopping' TERM; echo ready; while :; do sleep 0.1; done";
    let name = lab.run("web", &["sh", "-c", script], more).await;
    let calls = [
        ("restart_container", json!({"container": name})),
        (
            "compose_service",
            json!({"project": project, "action": "restart"}),
        ),
    ];
    for (number, (tool, arguments)) in (1..).zip(calls) {
        lab.until_written(&name, "ready", number).await;
        let before = lab.inspect(&name).await;
        let mut session = StdioSession::open(&lab.host, &[]).await;
        let id = session.start(tool, arguments).await;
        lab.until_written(&name, "stopping", number).await;
        session.cancel(id).await;
        wait_until("the start", async || {
            let now = &lab.inspect(&name).await["State"];
            now["Running"] == true && now["StartedAt"] != before["State"]["StartedAt"]
        })
        .await;
    }
}
