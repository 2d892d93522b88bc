//! Services of a compose project are started and stopped in the order of `depends_on`.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::super::lab::{Folder, Lab};
use super::compose_cli::labs;
use super::stdio_session::StdioSession;
use super::{fail, lab, succeed};
use crate::harness::{assert_contains, real, wait_until};

/// Healthy three seconds after each start, not before.
const YAML: &str = r#"services:
  a-front:
    image: busybox:test
    command: [sleep, "600"]
    stop_grace_period: 0s
    depends_on: [web]
  web:
    image: busybox:test
    command: [sleep, "600"]
    stop_grace_period: 0s
    depends_on: { z-db: { condition: service_healthy } }
  z-db:
    image: busybox:test
    command: [sh, -c, "rm -f /ok; sleep 3; touch /ok; sleep 600"]
    stop_grace_period: 0s
    healthcheck: { test: [CMD, test, -e, /ok], interval: 500ms, retries: 50 }
"#;

const SERVICES: [&str; 3] = ["z-db", "web", "a-front"];

/// A time of each service, in the order of [`SERVICES`], in seconds.
async fn times(lab: &Lab, time: &str) -> Vec<f64> {
    let mut times = Vec::new();
    for service in SERVICES {
        let name = lab.name(&format!("shop-{service}-1"));
        let details = lab.docker.inspect_container(&name, None).await.unwrap();
        let details = serde_json::to_value(details).unwrap();
        let time = details["State"][time].as_str().unwrap();
        // Of one day.
        let time = time.split_once('T').unwrap().1.trim_end_matches('Z');
        let parts = time.split(':').map(|part| part.parse::<f64>().unwrap());
        times.push(parts.fold(0.0, |sum, part| 60.0 * sum + part));
    }
    times
}

#[tokio::test]
async fn services_start_after_those_that_they_need_and_stop_before() {
    let dir = Folder::new();
    for mut lab in labs(&dir).await {
        let project = lab.name("shop");
        for service in SERVICES {
            lab.adopt(&format!("shop-{service}-1"));
        }
        let directory = dir.path().join(&project);
        succeed!(lab, "compose_up", {"directory": directory, "project": project, "yaml": YAML});
        for action in ["stop", "start", "restart"] {
            let done = succeed!(lab, "compose_service", {"project": project, "action": action});
            assert!(done["failed"].is_null(), "{done}");
            assert_eq!(done["containers"].as_array().unwrap().len(), 3, "{done}");
            // `docker compose restart` does not wait for the health of others.
            if action == "start" {
                let started = times(&lab, "StartedAt").await;
                assert!(started.is_sorted(), "{action}: {started:?}");
                assert!(started[1] - started[0] >= 3.0, "{action}: {started:?}");
            }
            if action == "stop" {
                let stopped = times(&lab, "FinishedAt").await;
                assert!(stopped.is_sorted_by(|a, b| a > b), "{action}: {stopped:?}");
            }
        }
        let down = succeed!(lab, "compose_down", {"project": project, "confirm": project});
        assert_eq!(
            down["removed_containers"].as_array().unwrap().len(),
            3,
            "{down}"
        );
    }
}

/// Also what needs that in turn; as the command does it.
#[tokio::test]
async fn service_whose_dependency_fails_is_not_started() {
    let dir = Folder::new();
    let yaml = "services:\n  job: {image: 'busybox:test', command: [sh, -c, exit 3]}\n  web: {image: 'busybox:test', \
        command: [sleep, '600'], stop_grace_period: 0s, depends_on: {job: {condition: service_completed_successfully}}}\n  \
        front: {image: 'busybox:test', command: [sleep, '600'], stop_grace_period: 0s, depends_on: [web]}\n";
    for mut lab in labs(&dir).await {
        let project = lab.name("shop");
        for service in ["job", "web", "front"] {
            lab.adopt(&format!("shop-{service}-1"));
        }
        let directory = dir.path().join(&project);
        let up = json!({"directory": directory, "project": project, "yaml": yaml});
        let text = fail(&lab, "compose_up", up).await;
        assert_contains(&text, "didn't complete successfully");
        let text = fail!(lab, "compose_service", {"project": project, "action": "start"});
        assert_contains(&text, "didn't complete successfully");
        for service in ["web", "front"] {
            let state = lab.state(&lab.name(&format!("shop-{service}-1"))).await;
            assert_eq!(state, "created", "{service}");
        }
        succeed!(lab, "compose_down", {"project": project, "confirm": project});
    }
}

/// The state of a container and the time of its last start or end.
async fn seen(lab: &Lab, name: &str, time: &str) -> (String, Value) {
    let details = lab.docker.inspect_container(name, None).await.unwrap();
    let state = serde_json::to_value(details.state).unwrap();
    (
        state["Status"].as_str().unwrap().to_owned(),
        state[time].clone(),
    )
}

fn labels(project: &str, service: &str) -> Value {
    json!({"com.docker.compose.config-hash": "1", "com.docker.compose.project": project, "com.docker.compose.service": service,
        "com.docker.compose.oneoff": "False", "com.docker.compose.container-number": "1"})
}

/// It is stopped and started in two steps, since it mounts a path of the host.
#[tokio::test]
async fn restart_ends_without_its_caller() {
    let (Some(mut lab), Some(programs)) = (lab().await, real::compose_dir()) else {
        return;
    };
    let path = format!("{programs}:/usr/bin:/bin");
    let (project, dir) = (lab.name("shop"), Folder::new());
    let bind = format!("{}:/x", dir.str());
    let more = json!({"StopTimeout": 3, "HostConfig": {"Binds": [bind]},
        "Labels": labels(&project, "web")});
    let name = lab.run("web", &["sleep", "600"], more).await;
    for (tool, arguments) in [
        ("restart_container", json!({"container": name})),
        (
            "compose_service",
            json!({"project": project, "action": "restart"}),
        ),
    ] {
        let before = seen(&lab, &name, "StartedAt").await;
        let env = [("MCP_TOOLSETS", "all"), ("PATH", &*path)];
        let mut session = StdioSession::open(&lab.host, &env).await;
        let id = session.start(tool, arguments).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        session.cancel(id).await;
        wait_until("the start", async || {
            let now = seen(&lab, &name, "StartedAt").await;
            now.0 == "running" && now != before
        })
        .await;
    }
}
