//! `diagnose_container`: what needs more than a row of `broken_containers.txt`, on every available engine.

use bollard::query_parameters::{
    RestartContainerOptions, StartContainerOptions, StopContainerOptionsBuilder,
};
use serde_json::{Value, json};

use crate::docker::lab::Lab;
use crate::docker::succeed;

impl Lab {
    async fn diagnose(&self, container: &str) -> Value {
        let arguments = json!({"container": container});
        succeed(&self.server, "diagnose_container", arguments).await
    }

    /// Starts it, which fails; returns the engine's error.
    async fn try_start(&self, container: &str) -> String {
        let start = self
            .docker
            .start_container(container, None::<StartContainerOptions>);
        start.await.unwrap_err().to_string()
    }
}

#[track_caller]
fn is(diagnosis: &Value, cause: &str, confidence: &str) {
    assert_has!(diagnosis, {"cause": cause, "confidence": confidence});
    assert_ne!(diagnosis["evidence"], json!([]), "{diagnosis}");
    // A running container needs no next step.
    let has_next = cause == "running" || diagnosis["next_steps"] != json!([]);
    assert!(has_next, "{diagnosis}");
}

#[track_caller]
fn mentions(diagnosis: &Value, part: &str) {
    assert!(diagnosis.to_string().contains(part), "{part}: {diagnosis}");
}

#[tokio::test]
async fn ends_loops_and_mounts_are_diagnosed() {
    for mut lab in Lab::everywhere().await {
        let script = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
        let ignores = lab.run("ignores", &["sleep", "600"], json!({})).await;
        let handles = lab.run_script("handles", script).await;
        for (name, grace, cause) in [(&ignores, 0, "killed"), (&handles, 60, "stopped")] {
            let options = StopContainerOptionsBuilder::new().t(grace).build();
            let stop = lab.docker.stop_container(name, Some(options));
            stop.await.unwrap();
            is(&lab.diagnose(name).await, cause, "high");
        }
        mentions(&lab.diagnose(&ignores).await, "did not end in time");

        let script =
            "echo starting; sleep 0.5; echo 'FATAL: connection refused to db:5432' >&2; exit 3";
        let name = lab.finish("app", &["sh", "-c", script], json!({})).await;
        let diagnosis = lab.diagnose(&name).await;
        // A phrase alone does not prove the cause.
        is(&diagnosis, "peer_unreachable", "medium");
        assert_eq!(
            diagnosis["log"],
            "starting\nFATAL: connection refused to db:5432"
        );
        mentions(&diagnosis, "share a network");
        mentions(&diagnosis, "die (exit code 3)");

        let dir = std::env::temp_dir().join(lab.name("bind"));
        std::fs::create_dir(&dir).unwrap();
        let mount = json!({"Type": "bind", "Source": dir, "Target": "/data"});
        let more = json!({"HostConfig": {"Mounts": [mount]}});
        let name = lab.create("bind", &["true"], more).await;
        std::fs::remove_dir(&dir).unwrap();
        let said = lab.try_start(&name).await;
        // The engine keeps no reason; its error message can be passed as an argument.
        let diagnosis = lab.diagnose(&name).await;
        is(&diagnosis, "bind_source_missing", "medium");
        mentions(&diagnosis, dir.to_str().unwrap());
        for container in [&*name, "that-was-never-created"] {
            let arguments = json!({"container": container, "error": said});
            let diagnosis = succeed(&lab, "diagnose_container", arguments).await;
            is(&diagnosis, "bind_source_missing", "high");
        }

        let more = json!({"HostConfig": {"RestartPolicy": {"Name": "always"}}});
        let command = ["sh", "-c", "echo boom >&2; exit 1"];
        let name = lab.run("loop", &command, more).await;
        for _ in 0..5 {
            let diagnosis = lab.diagnose(&name).await;
            assert_eq!(diagnosis["cause"], "crash_loop", "{diagnosis}");
            assert_eq!(diagnosis["also"][0]["cause"], "app_error", "{diagnosis}");
            mentions(&diagnosis, "boom");
        }

        let more = json!({"HostConfig": {"RestartPolicy": {"Name": "always"}}});
        let name = lab.run("fine", &["sleep", "600"], more).await;
        let now = RestartContainerOptions {
            t: Some(0),
            ..Default::default()
        };
        let restart = lab.docker.restart_container(&name, Some(now));
        restart.await.unwrap();
        is(&lab.diagnose(&name).await, "running", "high");
    }
}
