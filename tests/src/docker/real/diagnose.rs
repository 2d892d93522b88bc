//! `diagnose_container`: every way in which a container can fail, on every available engine.

use bollard::query_parameters::{
    KillContainerOptions, RestartContainerOptions, StartContainerOptions,
    StopContainerOptionsBuilder,
};
use serde_json::{Value, json};

use crate::docker::lab::{Lab, lab, published};
use crate::docker::{fail, succeed};
use crate::harness::{eventually, wait_until};

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
async fn out_of_memory() {
    for mut lab in Lab::everywhere().await {
        // The shell outlives its killed child for a second: an engine may miss the event of a container that is gone.
        let eat = "x=$(head -c 64000000 /dev/zero | tr '\\0' x); echo $x | wc -c";
        let script = "sh -c \"$0\"; code=$?; sleep 1; exit $code";
        let more = json!({"HostConfig": {"Memory": 16 << 20}});
        let name = lab.finish("oom", &["sh", "-c", script, eat], more).await;
        wait_until("the reason", async || {
            let details = lab.docker.inspect_container(&name, None).await.unwrap();
            details.state.unwrap().oom_killed == Some(true)
        })
        .await;
        let diagnosis = lab.diagnose(&name).await;
        is(&diagnosis, "oom_killed", "high");
        mentions(&diagnosis, "16 MiB");
    }
}

#[tokio::test]
async fn killed_from_outside() {
    for mut lab in Lab::everywhere().await {
        let name = lab.run("killed", &["sleep", "600"], json!({})).await;
        let kill = lab
            .docker
            .kill_container(&name, None::<KillContainerOptions>);
        kill.await.unwrap();
        lab.until(&name, "exited").await;
        let diagnosis = lab.diagnose(&name).await;
        is(&diagnosis, "killed", "high");
        mentions(&diagnosis, "signal 9");
    }
}

#[tokio::test]
async fn stopped_with_and_without_a_handler() {
    for mut lab in Lab::everywhere().await {
        let script = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
        let ignores = lab.run("ignores", &["sleep", "600"], json!({})).await;
        let handles = lab.run_script("handles", script).await;
        for (name, grace, cause) in [(&ignores, 0, "killed"), (&handles, 9, "stopped")] {
            let options = StopContainerOptionsBuilder::new().t(grace).build();
            let stop = lab.docker.stop_container(name, Some(options));
            stop.await.unwrap();
            is(&lab.diagnose(name).await, cause, "high");
        }
        mentions(&lab.diagnose(&ignores).await, "did not end in time");
    }
}

#[tokio::test]
async fn application_error() {
    for mut lab in Lab::everywhere().await {
        let script =
            "echo starting; sleep 0.2; echo 'FATAL: connection refused to db:5432' >&2; exit 3";
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
    }
}

#[tokio::test]
async fn missing_command() {
    for mut lab in Lab::everywhere().await {
        let name = lab.create("nope", &["/nope"], json!({})).await;
        lab.try_start(&name).await;
        is(&lab.diagnose(&name).await, "command_not_found", "high");
        let name = lab
            .finish("typo", &["sh", "-c", "frobnicate"], json!({}))
            .await;
        let diagnosis = lab.diagnose(&name).await;
        is(&diagnosis, "command_not_found", "high");
        mentions(&diagnosis, "frobnicate");
    }
}

#[tokio::test]
async fn command_that_is_not_executable() {
    for mut lab in Lab::everywhere().await {
        let name = lab.create("dir", &["/tmp"], json!({})).await;
        lab.try_start(&name).await;
        is(&lab.diagnose(&name).await, "not_executable", "high");
        let script = "touch /tmp/x; /tmp/x";
        let name = lab.finish("bit", &["sh", "-c", script], json!({})).await;
        is(&lab.diagnose(&name).await, "not_executable", "medium");
    }
}

#[tokio::test]
async fn taken_port() {
    for mut lab in Lab::everywhere().await {
        let (first, taken) = lab.publish("first").await;
        let second = lab.create("second", &["true"], published(&taken)).await;
        lab.try_start(&second).await;
        let diagnosis = lab.diagnose(&second).await;
        is(&diagnosis, "port_taken", "high");
        mentions(&diagnosis, &format!("127.0.0.1:{taken}"));
        mentions(&diagnosis, &format!("Stop `{first}`"));
    }
}

#[tokio::test]
async fn missing_bind_directory() {
    for mut lab in Lab::everywhere().await {
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
    }
}

#[tokio::test]
async fn crash_loop_is_detected_at_any_time() {
    for mut lab in Lab::everywhere().await {
        let more = json!({"HostConfig": {"RestartPolicy": {"Name": "always"}}});
        let command = ["sh", "-c", "echo boom >&2; exit 1"];
        let name = lab.run("loop", &command, more).await;
        for _ in 0..5 {
            let diagnosis = lab.diagnose(&name).await;
            assert_eq!(diagnosis["cause"], "crash_loop", "{diagnosis}");
            assert_eq!(diagnosis["also"][0]["cause"], "app_error", "{diagnosis}");
            mentions(&diagnosis, "boom");
        }
    }
}

#[tokio::test]
async fn requested_restart_is_no_crash_loop() {
    for mut lab in Lab::everywhere().await {
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

#[tokio::test]
async fn failing_health_check() {
    for mut lab in Lab::everywhere().await {
        let check = |script: &str| json!({"Healthcheck": {"Test": ["CMD-SHELL", script], "Interval": 100_000_000, "Retries": 1}});
        let sick = check("echo not ready; exit 1");
        let sick = lab.run("sick", &["sleep", "600"], sick).await;
        let blind = check("curl -f http://localhost/");
        let blind = lab.run("blind", &["sleep", "600"], blind).await;
        let wait = async |name: &str| {
            eventually("its bad health", async || {
                let diagnosis = lab.diagnose(name).await;
                (diagnosis["cause"] == "unhealthy").then_some(diagnosis)
            })
            .await
        };
        let diagnosis = wait(&sick).await;
        is(&diagnosis, "unhealthy", "high");
        mentions(&diagnosis, "exit code 1: not ready");
        mentions(&wait(&blind).await, "not in the image");
    }
}

#[tokio::test]
async fn log_that_is_not_kept() {
    for mut lab in Lab::everywhere().await {
        let none = || json!({"HostConfig": {"LogConfig": {"Type": "none"}}});
        let name = lab.run("mute", &["sleep", "600"], none()).await;
        is(&lab.diagnose(&name).await, "no_logs", "high");
        let command = ["sh", "-c", "exit 4"];
        let name = lab.finish("mute-and-broken", &command, none()).await;
        let diagnosis = lab.diagnose(&name).await;
        is(&diagnosis, "app_error", "medium");
        assert_eq!(diagnosis["also"][0]["cause"], "no_logs", "{diagnosis}");
    }
}

#[tokio::test]
async fn containers_without_a_problem() {
    for mut lab in Lab::everywhere().await {
        let name = lab.create("new", &["true"], json!({})).await;
        is(&lab.diagnose(&name).await, "never_started", "high");
        let name = lab.finish("job", &["true"], json!({})).await;
        is(&lab.diagnose(&name).await, "finished", "high");
        let name = lab.run("up", &["sleep", "600"], json!({})).await;
        is(&lab.diagnose(&name).await, "running", "high");
        lab.docker.pause_container(&name).await.unwrap();
        is(&lab.diagnose(&name).await, "paused", "high");
        lab.docker.unpause_container(&name).await.unwrap();
    }
}

#[tokio::test]
async fn unknown_name_gets_a_suggestion() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.create("shop-web-1", &["true"], json!({})).await;
    fails_with!(lab, "diagnose_container", {"container": format!("{name}x")}, &format!("`{name}`"));
}
