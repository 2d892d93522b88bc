//! `start_container`, `stop_container`, `restart_container`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::lab::lab;
use super::{fail, succeed};
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
        let seen = (&change["before"], &change["after"], &change["changed"]);
        assert_eq!(
            seen,
            (&json!(before), &json!(after), &json!(changed)),
            "{change}"
        );
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
async fn a_container_that_ends_at_once_says_why() {
    let Some(mut lab) = lab().await else { return };
    let broken = lab
        .create(
            "broken",
            &["sh", "-c", "echo no config >&2; exit 3"],
            json!({}),
        )
        .await;
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

    let gone = lab
        .create(
            "gone",
            &["true"],
            json!({"HostConfig": {"AutoRemove": true}}),
        )
        .await;
    let change = succeed(&lab, "start_container", json!({"container": gone})).await;
    assert!(
        change["after"] == "removed" || change["exit_code"] == 0,
        "{change}"
    );
}

#[tokio::test]
async fn a_start_that_fails_says_what_to_do() {
    let Some(mut lab) = lab().await else { return };
    let missing = lab.create("missing", &["/nope"], json!({})).await;
    let no_exec = lab.create("no-exec", &["/etc"], json!({})).await;
    let port = json!({"ExposedPorts": {"80/tcp": {}}, "HostConfig": {"PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "0"}]}}});
    let first = lab.run("first", &["sleep", "600"], port).await;
    let shown = succeed(&lab, "get_container", json!({"container": first})).await;
    let taken = shown["ports"][0].as_str().unwrap();
    let taken = &taken[taken.find(':').unwrap() + 1..taken.find('-').unwrap()];
    let port = json!({"ExposedPorts": {"80/tcp": {}}, "HostConfig": {"PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": taken}]}}});
    let second = lab.create("second", &["sleep", "600"], port).await;
    for (container, expected) in [
        (missing, "not in the image (exit code 127)"),
        (no_exec, "not executable (exit code 126)"),
        (second, "a host port that it publishes is taken"),
    ] {
        let message = fail!(lab, "start_container", {"container": container});
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn the_container_decides_how_long_stopping_takes() {
    let Some(mut lab) = lab().await else { return };
    let name = lab
        .run("quick", &["sleep", "600"], json!({"StopTimeout": 1}))
        .await;
    let begin = Instant::now();
    succeed(&lab, "stop_container", json!({"container": name})).await;
    assert!(
        begin.elapsed() < Duration::from_secs(8),
        "{:?}",
        begin.elapsed()
    );
    let arguments = json!({"container": name, "timeout_seconds": 601});
    let params = json!({"name": "stop_container", "arguments": arguments});
    let error = lab.server.error("tools/call", params).await;
    assert_eq!(error["data"]["field"], "timeout_seconds", "{error}");
}

#[tokio::test]
async fn a_paused_container_is_a_conflict() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.run("paused", &["sleep", "600"], json!({})).await;
    lab.docker.pause_container(&name).await.unwrap();
    let message = fail(&lab, "start_container", json!({"container": name})).await;
    assert!(message.contains("paused"), "{message}");
    lab.docker.unpause_container(&name).await.unwrap();
}
