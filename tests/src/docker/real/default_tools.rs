//! The tools of the default toolset but `diagnose_container`.

use crate::docker::prelude::*;

/// Calls, one after the other, and what they answer.
const STEPS: &str = r#"
start_container | {} | {"before": "running", "after": "running", "changed": false}
stop_container | {"timeout_seconds": 1} | {"before": "running", "after": "exited", "changed": true, "exit_code": 137}
stop_container | {} | {"before": "exited", "after": "exited", "changed": false}
start_container | {} | {"before": "exited", "after": "running", "changed": true}
restart_container | {"timeout_seconds": 0} | {"before": "running", "after": "running", "changed": true}
"#;

#[tokio::test]
async fn a_container_is_stopped_started_and_restarted() {
    let Some(lab) = lab().await else { return };
    let name = lab.sleep("web", json!({})).await;
    for row in STEPS.trim().lines() {
        let [tool, arguments, expected] = row.split(" | ").collect::<Vec<_>>().try_into().unwrap();
        let [arguments, expected] =
            [arguments, expected].map(|json| serde_json::from_str::<Value>(json).unwrap());
        let change = succeed(&lab, tool, merged(arguments, json!({"container": name}))).await;
        assert_has!(change, expected);
        assert_eq!(lab.state(&name).await, expected["after"]);
    }

    for (name, options, more) in [
        ("asked", json!({}), json!({"timeout_seconds": 1})),
        ("quick", json!({"StopTimeout": 1}), json!({})),
    ] {
        let name = lab.sleep(name, options).await;
        let arguments = merged(more, json!({"container": name}));
        let stopped = succeed(&lab, "stop_container", arguments).await;
        assert_contains(&stopped["note"], "within 1 s");
    }
    let error = invalid(
        &lab,
        "stop_container",
        json!({"container": name, "timeout_seconds": 601}),
    );
    let error = error.await;
    assert_eq!(error["data"]["field"], "timeout_seconds", "{error}");
}

#[tokio::test]
async fn early_exit_is_explained() {
    let Some(lab) = lab().await else { return };
    let script = ["sh", "-c", "echo no config >&2; sleep 0.2; exit 3"];
    let broken = lab.create("broken", &script, json!({})).await;
    // On a busy machine it may run on while it is watched.
    let start = async |name: &String| {
        eventually("an early exit", async || {
            let change = succeed(&lab, "start_container", json!({"container": name})).await;
            let has_ended = change["exit_code"].is_number();
            has_ended.then_some(change)
        })
        .await
    };
    let change = start(&broken).await;
    assert_has!(change, {"after": "exited", "exit_code": 3, "log": "no config"});
    assert_contains(&change["note"], "application's own error");

    let job = lab.create("job", &["true"], json!({})).await;
    assert_contains(&start(&job).await["note"], "job that is done");

    let policy = json!({"HostConfig": {"RestartPolicy": {"Name": "always"}}});
    let looping = lab.create("loop", &["sh", "-c", "exit 1"], policy).await;
    assert_contains(&start(&looping).await["note"], "again and again");

    let auto_remove = json!({"HostConfig": {"AutoRemove": true}});
    wait_until("an end that removes", async || {
        let gone = lab.create("gone", &["true"], auto_remove.clone()).await;
        let change = succeed(&lab, "start_container", json!({"container": gone})).await;
        wait_until("its removal", async || lab.inspect(&gone).await.is_null()).await;
        change["after"] == "removed" || change["exit_code"] == 0
    })
    .await;
}

const FAILED_STARTS: &str = r#"
start_container | {"container": "P-missing"} | ! Its command is not in the image
start_container | {"container": "P-no-exec"} | ! exists and cannot be executed
start_container | {"container": "P-second"} | ! The host port that it publishes is taken
start_container | {"container": "P-paused"} | ! paused
"#;

#[tokio::test]
async fn failed_start_is_explained() {
    let Some(lab) = lab().await else { return };
    lab.create("missing", &["/nope"], json!({})).await;
    lab.create("no-exec", &["/etc"], json!({})).await;
    let (_, taken) = lab.publish("first").await;
    lab.create("second", &["true"], published(&taken)).await;
    let name = lab.sleep("paused", json!({})).await;
    lab.docker.pause_container(&name).await.unwrap();
    lab.steps(FAILED_STARTS, &[]).await;
}

#[tokio::test]
async fn containers_are_listed() {
    let Some(lab) = lab().await else { return };
    let more = json!({
        "Labels": of_compose("shop", "web"),
        "ExposedPorts": {"80/tcp": {}, "81/tcp": {}},
        "HostConfig": {"PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}},
    });
    let up = lab.sleep("up", more).await;
    let down = lab.create("down", &["true"], json!({})).await;

    let prefix = lab.name("");
    let list = |more: Value| {
        let arguments = merged(more, json!({"name": prefix}));
        succeed(&lab, "list_containers", arguments)
    };
    let running = list(json!({})).await;
    let rows = running["containers"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{running}");
    let row = &rows[0];
    assert_has!(row, {"name": up, "state": "running", "image": "busybox:test", "compose_project": "shop",
        "compose_service": "web"});
    let port = row["ports"][0].as_str().unwrap();
    assert_starts_with(&port, "127.0.0.1:");
    assert_ends_with(&port, "->80/tcp");
    assert_eq!(row["id"].as_str().unwrap().len(), 12);

    for (filter, expected) in [
        (json!({"all": true}), vec![&down, &up]),
        (json!({"label": "com.docker.compose.project"}), vec![&up]),
        (
            json!({"label": "com.docker.compose.service=web"}),
            vec![&up],
        ),
        (json!({"label": "com.docker.compose.service=db"}), vec![]),
        (json!({"state": "created"}), vec![&down]),
        (json!({"project": "shop"}), vec![&up]),
        (json!({"image": "nginx", "all": true}), vec![]),
    ] {
        let listed = list(filter.clone()).await;
        let mut names = member_texts(&listed["containers"], "name");
        names.sort_unstable();
        assert_eq!(names, expected, "{filter}");
    }
    let one = list(json!({"all": true, "limit": 1})).await;
    assert_has!(one, {"total": 2, "omitted": 1});
}

#[tokio::test]
async fn get_container_shows_all_sections() {
    let Some(lab) = lab().await else { return };
    let more = json!({
        "Env": ["MODE=test"],
        "WorkingDir": "/srv",
        "User": "1000",
        "Healthcheck": {"Test": ["CMD", "sh", "-c", "echo not yet; exit 1"], "Interval": 100_000_000, "Retries": 1},
        "HostConfig": {
            "Memory": 64 << 20, "NanoCpus": 500_000_000, "PidsLimit": 50,
            "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3},
            "Tmpfs": {"/scratch": ""}, "Mounts": [{"Type": "bind", "Source": "/etc", "Target": "/data", "ReadOnly": true}],
        },
    });
    let name = lab.sleep("full", more).await;
    let get = || succeed(&lab, "get_container", json!({"container": name}));
    let shown = eventually("its bad health", async || {
        Some(get().await).filter(|shown| shown["health"]["status"] == "unhealthy")
    })
    .await;
    assert_has!(shown, {"name": name, "state": {"status": "running"}});
    assert!(shown["state"].get("exit_code").is_none());
    assert_has!(shown, {"health": {"last_probe": {"output": "not yet", "exit_code": 1}},
        "command": "sleep 600"});
    let env = shown["env"].as_array().unwrap();
    assert!(env.contains(&json!("MODE=test")));
    assert_has!(shown, {"working_dir": "/srv", "user": "1000", "restart_policy": "on-failure:3"});
    let limits = json!({"memory_bytes": 64 << 20, "cpus": 0.5, "pids": 50});
    assert_eq!(shown["limits"], limits);
    assert_eq!(shown["mounts"], json!(["/etc -> /data (bind, ro)"]));
    assert!(shown["networks"]["bridge"].is_string());
    assert!(shown.to_string().len() < 2_500, "{shown}");

    let over = lab.finish("over", &["sh", "-c", "exit 3"], json!({})).await;
    let shown = succeed(&lab, "get_container", json!({"container": over})).await;
    assert_has!(shown, {"state": {"exit_code": 3, "exit_meaning": "the application's own error"}});
    assert!(shown["state"]["finished_at"].is_string());
}

#[tokio::test]
async fn unknown_members_of_a_newer_engine_do_not_fail_the_list() {
    let list = json!([
        {"Id": "a".repeat(64), "Names": ["/hibernator"], "State": "hibernating", "Status": "Zzz", "Created": 2,
         "Ports": null, "Labels": null, "Health": {"Status": "sleepy"}, "More": [1, {"x": null}]},
        {"Id": "b".repeat(64), "Names": {"what": "is this"}, "Created": "yesterday"},
        {"Id": "c".repeat(64), "Names": ["/old"], "State": "running", "Created": 1},
    ]);
    let (_fake, server) = with_fake(&[], move |request| match request.target.as_str() {
        "/version" => Response::json(200, &json!({"Version": "99", "ApiVersion": "1.99"})),
        path if path.starts_with("/containers/json") => Response::json(200, &list),
        _ => Response::json(404, &json!({"message": "No such container: x"})),
    })
    .await;
    let listed = succeed(&server, "list_containers", json!({})).await;
    let rows = listed["containers"].as_array().unwrap().iter();
    let states: Vec<_> = rows.map(|row| &row["state"]).collect();
    assert_eq!(states, ["hibernating", "running", "unknown"], "{listed}");
    fails_with!(server, "get_container", {"container": "hibernatro"}, "`hibernator`");
}

async fn log(lab: &Lab, name: &str, more: Value) -> Value {
    let arguments = merged(more, json!({"container": name}));
    succeed(lab, "get_container_logs", arguments).await
}

/// Calls on a log of 150 lines and one of stderr, on one that is not kept, on an empty one, and on one with a long line: a
/// search cannot reveal a value, and nothing is hidden by writing over it.
const READ: &str = r#"
get_container_logs | {"container": "P-lines", "tail": 2, "stream": "stdout"} | {"log": "line 149\nline 150", "lines": 2, "truncated": true}
get_container_logs | {"container": "P-lines"} | {"lines": 100}
get_container_logs | {"container": "P-lines"} | ask for more with `tail`
get_container_logs | {"container": "P-lines", "tail": 500} | {"lines": 151, "truncated": false}
get_container_logs | {"container": "P-lines", "stream": "stderr"} | {"log": "oops"}
get_container_logs | {"container": "P-lines", "since": "1h"} | {"lines": 100}
get_container_logs | {"container": "P-lines", "since": "2100-01-01T00:00:00Z"} | {"lines": 0}
get_container_logs | {"container": "P-lines", "grep": "^LINE 1[57]$"} | {"log": "line 15\nline 17"}
get_container_logs | {"container": "P-lines", "grep": "^line", "tail": 2} | {"log": "line 149\nline 150"}
get_container_logs | {"container": "P-lines", "grep": "^line", "until": "1h"} | {"log": ""}
get_container_logs | {} | ! either `container`, or `project`
get_container_logs | {"container": "P-lines", "project": "x"} | ! either `container`, or `project`
get_container_logs | {"container": "P-mute"} | ! log driver & json-file
get_container_logs | {"container": "P-silent"} | {"log": "", "lines": 0}
get_container_logs | {"container": "P-long", "grep": "canary-31"} | {"log": ""}
get_container_logs | {"container": "P-long", "grep": "error"} | {"log": "ERROR first\\rall fine"}
get_container_logs | {"container": "P-long"} | more bytes)"
"#;

#[tokio::test]
async fn logs_are_read_and_searched() {
    let Some(lab) = lab().await else { return };
    let script = "for i in $(seq 150); do echo line $i; done; echo oops >&2";
    let name = lab.finish("lines", &["sh", "-c", script], json!({})).await;
    let none = json!({"HostConfig": {"LogConfig": {"Type": "none"}}});
    lab.finish("mute", &["echo", "hi"], none).await;
    lab.finish("silent", &["true"], json!({})).await;
    let script =
        r"printf 'ERROR first\rall fine\n'; printf '%040000d password=canary-31 needle\n' 7";
    let long = lab.finish("long", &["sh", "-c", script], json!({})).await;
    lab.steps(READ, &[]).await;

    let timed = json!({"tail": 1, "stream": "stderr", "timestamps": true});
    let timed = log(&lab, &name, timed).await;
    assert_starts_with(&timed["log"], "20");
    assert_ends_with(&timed["log"], "Z oops");
    let arguments = json!({"container": name, "since": "soon"});
    let error = invalid(&lab, "get_container_logs", arguments).await;
    assert_eq!(error["data"]["field"], "since", "{error}");
    let arguments = json!({"container": name, "grep": "x".repeat(1_001)});
    invalid(&lab, "get_container_logs", arguments).await;
    let found = log(&lab, &long, json!({"grep": "needle$"})).await;
    assert_starts_with(&found["log"], "… 000");
    assert_ends_with(&found["log"], "7 password=*** needle… (38990 more bytes)");
    // The engine sends it in several frames, each with a time.
    let timed = log(&lab, &long, json!({"grep": "needle$", "timestamps": true})).await;
    assert_eq!(timed["log"].as_str().unwrap().matches("Z ").count(), 1);
}

#[tokio::test]
async fn escapes_and_invalid_bytes_become_text() {
    let Some(lab) = lab().await else { return };
    let script = r"printf '\033[31mred\033[0m\a\n10%%\r100%%\nbad \377 byte\nno line end'";
    let expected = "red\n100%\nbad \u{fffd} byte\nno line end";
    let plain = lab.finish("plain", &["sh", "-c", script], json!({})).await;
    assert_eq!(log(&lab, &plain, json!({})).await["log"], expected);
    let (command, tty) = (["sh", "-c", script], json!({"Tty": true}));
    let terminal = lab.finish("terminal", &command, tty).await;
    assert_eq!(log(&lab, &terminal, json!({})).await["log"], expected);
}

#[tokio::test]
async fn a_log_is_followed_over_restarts() {
    let Some(lab) = lab().await else { return };
    let script = "echo begin; i=$(cat /i || echo 0); echo $((i + 1)) > /i; echo run $i; sleep 1";
    let policy = json!({"HostConfig": {"RestartPolicy": {"Name": "always"}}});
    let name = lab.run("again", &["sh", "-c", script], policy).await;
    let followed = succeed!(lab, "get_container_logs",
        {"container": name, "until_match": "^run 3$", "grep": "^run", "tail": 100,
        "stream": "stdout", "follow_seconds": 600});
    assert_has!(followed, {"stopped_by": "matched", "matched": "run 3"});
    assert_eq!(followed["log"], "run 0\nrun 1\nrun 2\nrun 3");
    let job = lab.run_script("job", "sleep 1; echo done; sleep 1").await;
    let followed = log(&lab, &job, json!({"follow_seconds": 600, "tail": 10})).await;
    assert_has!(followed, {"stopped_by": "ended", "log": "done"});
    // The text is there already.
    let found = log(&lab, &job, json!({"until_match": "done"})).await;
    assert_has!(found, {"stopped_by": "matched", "matched": "done", "log": "done"});
}
