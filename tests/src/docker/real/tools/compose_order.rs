//! Services of a compose project are started and stopped in the order of `depends_on`.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::super::lab::{Folder, Lab};
use super::compose_cli::labs;
use super::{lab, succeed};
use crate::harness::assert_contains;

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
        for (action, starts, stops) in [
            ("stop", false, true),
            ("start", true, false),
            ("restart", true, true),
        ] {
            let done = succeed!(lab, "compose_service", {"project": project, "action": action});
            assert!(done["failed"].is_null(), "{done}");
            assert_eq!(done["containers"].as_array().unwrap().len(), 3, "{done}");
            if starts {
                let started = times(&lab, "StartedAt").await;
                assert!(started.is_sorted(), "{action}: {started:?}");
                assert!(started[1] - started[0] >= 3.0, "{action}: {started:?}");
            }
            if stops {
                let stopped = times(&lab, "FinishedAt").await;
                assert!(stopped.is_sorted_by(|a, b| a > b), "{action}: {stopped:?}");
            }
        }
        let down = succeed!(lab, "compose_down", {"project": project, "confirm": project});
        let removed: Vec<String> = SERVICES
            .iter()
            .rev()
            .map(|it| lab.name(&format!("shop-{it}-1")))
            .collect();
        assert_eq!(down["removed_containers"], json!(removed), "{down}");
    }
}

/// Also what needs that in turn.
#[tokio::test]
async fn service_whose_dependency_fails_is_not_started() {
    let Some(mut lab) = lab().await else { return };
    let project = lab.name("shop");
    for (service, needs, script) in [
        ("job", "", "exit 3"),
        (
            "web",
            "job:service_completed_successfully:true",
            "sleep 600",
        ),
        ("front", "web:service_started:false", "sleep 600"),
    ] {
        let labels = json!({"StopTimeout": 0, "Labels": {
            "com.docker.compose.project": project, "com.docker.compose.service": service,
            "com.docker.compose.depends_on": needs}});
        lab.create(service, &["sh", "-c", script], labels).await;
    }
    let begun = tokio::time::Instant::now();
    let done = succeed!(lab, "compose_service", {"project": project, "action": "start"});
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_contains(
        &done["failed"][lab.name("web")],
        "service_completed_successfully",
    );
    assert_contains(&done["failed"][lab.name("front")], "needs `web`");
    let states = [
        lab.state(&lab.name("web")).await,
        lab.state(&lab.name("front")).await,
    ];
    assert_eq!(states, ["created", "created"]);
    assert_eq!(done["containers"][0]["exit_code"], Value::from(3), "{done}");
}
