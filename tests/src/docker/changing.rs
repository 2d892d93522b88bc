//! `start_container`, `stop_container`, `restart_container`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::lab::{lab, published};
use super::{fail, invalid, succeed};
use crate::harness::assert_contains;

#[tokio::test]
async fn a_container_is_stopped_started_and_restarted() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.run("web", &["sleep", "600"], json!({})).await;
    let call = async |tool, seconds: Option<u32>| {
        let mut arguments = json!({"container": name});
        if let Some(seconds) = seconds {
            arguments["timeout_seconds"] = json!(seconds);
        }
        succeed(&lab, tool, arguments).await
    };
    let expect = |change: &Value, before: &str, after: &str, changed: bool| {
        assert_has!(change, {"before": before, "after": after, "changed": changed});
    };

    let change = call("start_container", None).await;
    expect(&change, "running", "running", false);
    let change = call("stop_container", Some(1)).await;
    expect(&change, "running", "exited", true);
    assert_eq!(change["exit_code"], 137);
    assert_contains(&change["note"], "within 1 s");
    assert_eq!(lab.state(&name).await, "exited");
    let change = call("stop_container", None).await;
    expect(&change, "exited", "exited", false);
    let change = call("start_container", None).await;
    expect(&change, "exited", "running", true);
    assert_eq!(lab.state(&name).await, "running");
    let change = call("restart_container", Some(0)).await;
    expect(&change, "running", "running", true);
}

#[tokio::test]
async fn early_exit_is_explained() {
    let Some(mut lab) = lab().await else { return };
    let script = ["sh", "-c", "echo no config >&2; exit 3"];
    let broken = lab.create("broken", &script, json!({})).await;
    let change = succeed(&lab, "start_container", json!({"container": broken})).await;
    assert_has!(change, {"after": "exited", "exit_code": 3, "log": "no config"});
    assert_contains(&change["note"], "application's own error");

    let job = lab.create("job", &["true"], json!({})).await;
    let change = succeed(&lab, "start_container", json!({"container": job})).await;
    assert_contains(&change["note"], "job that is done");

    let policy = json!({"HostConfig": {"RestartPolicy": {"Name": "always"}}});
    let looping = lab.create("loop", &["sh", "-c", "exit 1"], policy).await;
    let change = succeed!(lab, "start_container", {"container": looping});
    assert_contains(&change["note"], "again and again");

    let auto_remove = json!({"HostConfig": {"AutoRemove": true}});
    let gone = lab.create("gone", &["true"], auto_remove).await;
    let change = succeed(&lab, "start_container", json!({"container": gone})).await;
    let is_gone = change["after"] == "removed" || change["exit_code"] == 0;
    assert!(is_gone, "{change}");
}

#[tokio::test]
async fn failed_start_is_explained() {
    let Some(mut lab) = lab().await else { return };
    let missing = lab.create("missing", &["/nope"], json!({})).await;
    let no_exec = lab.create("no-exec", &["/etc"], json!({})).await;
    let (_, taken) = lab.publish("first").await;
    let second = lab
        .create("second", &["sleep", "600"], published(&taken))
        .await;
    for (container, expected) in [
        (missing, "not in the image (exit code 127)"),
        (no_exec, "not executable (exit code 126)"),
        (second, "a host port that it publishes is taken"),
    ] {
        fails_with!(lab, "start_container", {"container": container}, expected);
    }
}

#[tokio::test]
async fn stop_uses_the_grace_period_of_the_container() {
    let Some(mut lab) = lab().await else { return };
    let one_second = json!({"StopTimeout": 1});
    let name = lab.run("quick", &["sleep", "600"], one_second).await;
    let begin = Instant::now();
    succeed(&lab, "stop_container", json!({"container": name})).await;
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}");
    let arguments = json!({"container": name, "timeout_seconds": 601});
    let error = invalid(&lab, "stop_container", arguments).await;
    assert_eq!(error["data"]["field"], "timeout_seconds", "{error}");
}

#[tokio::test]
async fn a_paused_container_is_a_conflict() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.run("paused", &["sleep", "600"], json!({})).await;
    lab.docker.pause_container(&name).await.unwrap();
    fails_with!(lab, "start_container", {"container": name}, "paused");
    lab.docker.unpause_container(&name).await.unwrap();
}
