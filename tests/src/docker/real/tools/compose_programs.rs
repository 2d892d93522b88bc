//! The programs that `compose_up` starts end with the call, and with the server.

use std::fs;

use serde_json::json;

use super::super::super::lab::{Folder, Lab, merged};
use super::stdio_session::StdioSession;
use super::{fail, succeed};
use crate::harness::{real, wait_until};

/// A project that never becomes healthy.
const NEVER: &str = "services:
  web:
    image: busybox:test
    command: [sleep, '600']
    stop_grace_period: 0s
    healthcheck: {test: ['CMD', 'false'], interval: 1s, retries: 1000}
";

/// The number of programs of this project that run.
fn programs(project: &str) -> usize {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(&format!("-p\0{project}\0")))
        .count()
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
    dir.write("shop/compose.yml", NEVER);
    dir.write("config/config.json", "{}");
    dir.write("bin/x", "");
    std::os::unix::fs::symlink(docker, dir.path().join("bin/docker")).unwrap();
    std::os::unix::fs::symlink(&compose, dir.path().join("config/cli-plugins")).unwrap();
    let config = dir.path().join("config");
    for path in [compose, format!("{}/bin", dir.str())] {
        let env = [
            ("PATH", path.as_str()),
            ("DOCKER_CONFIG", config.to_str().unwrap()),
            ("DOCKER_MCP_PROJECT_DIR", dir.str()),
            ("MCP_TOOLSETS", "all"),
        ];
        let mut lab = Lab::at(host.clone(), &env).await;
        let project = lab.name("never");
        lab.adopt("never-web-1");
        let directory = dir.path().join("shop");
        let up =
            json!({"directory": directory, "project": project, "wait": true, "confirm": project});
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
        let down = json!({"project": project, "confirm": project});
        succeed(&lab, "compose_down", down).await;
    }
}
