//! Containers: create, inspect, change, remove, wait for them, follow and search their logs, measure what they use.

use crate::docker::prelude::*;

/// Containers that cannot be started, or not even created.
const NOT_CREATED: &str = r#"
create_container | {"image": "busybox:test", "name": "P-broken", "command": ["/nope"]} | ! not in the image & remove_container
create_container | {"image": "busybox:tset", "mounts": ["P-data:/d"]} | ! Did you mean `busybox:test` & and stay: `P-data`
list_volumes | {"volume": "P-data"} | P-data
create_container | {"image": "busybox:tset"} | ! Did you mean `busybox:test`
"#;

#[tokio::test]
async fn early_exit_and_failed_start_are_explained() {
    let Some(lab) = lab().await else { return };
    let name = lab.name("short");
    let script = "echo no; sleep 0.2; exit 3";
    let arguments = json!({"image": "busybox:test", "name": name, "command": ["sh", "-c", script]});
    // On a busy machine it may run on while it is watched.
    let created = eventually("an early exit", async || {
        let created = succeed(&lab, "create_container", arguments.clone()).await;
        if created["state"] == "running" {
            lab.remove(&name).await;
            return None;
        }
        Some(created)
    })
    .await;
    assert_has!(created, {"exit_code": 3, "log": "no"});
    fails_with!(lab, "create_container", arguments, "already in use");
    lab.steps(NOT_CREATED, &[]).await;
}

#[tokio::test]
async fn container_is_changed_while_it_runs() {
    let Some(lab) = lab().await else { return };
    let name = lab.sleep("web", json!({})).await;
    for (paused, changed, state) in [
        (true, json!(["paused"]), "paused"),
        (true, json!([]), "paused"),
        (false, json!(["paused"]), "running"),
        (false, json!([]), "running"),
    ] {
        let updated = succeed!(lab, "update_container", {"container": name, "paused": paused});
        assert_eq!(updated["changed"], changed);
        assert_eq!(lab.state(&name).await, state);
        if state == "paused" {
            let resume = "update_container with `paused: false`";
            fails_with!(lab, "start_container", {"container": name}, resume);
            fails_with!(lab, "execute_command", {"container": name, "command": ["true"]}, resume);
        }
    }

    // It may not swap, neither before nor after.
    let limits = json!({"HostConfig": {"Memory": 128 << 20, "MemorySwap": 128 << 20}});
    let name = lab.sleep("limited", limits).await;
    let new_name = lab.name("renamed");
    let updated = succeed!(lab, "update_container", {"container": name, "memory_mb": 64,
        "cpus": 0.25, "pids": 20, "restart": "always", "new_name": new_name});
    assert_eq!(updated["container"], json!(new_name));
    let details = lab.inspect(&new_name).await;
    assert_has!(details["HostConfig"], {"Memory": 64 << 20, "MemorySwap": 64 << 20,
        "NanoCpus": 250_000_000, "PidsLimit": 20});
    // What is swapped stays what it was, where that is more than the engine's own limit.
    let restart = json!({"Name": "on-failure", "MaximumRetryCount": 5});
    let limits = json!({"HostConfig": {"Memory": 64 << 20, "MemorySwap": 1 << 30, "RestartPolicy": restart}});
    let swapping = lab.create("swapping", &["true"], limits).await;
    succeed!(lab, "update_container", {"container": swapping, "memory_mb": 100, "restart": "on-failure"});
    assert_has!(lab.inspect(&swapping).await["HostConfig"],
        {"Memory": 100 << 20, "MemorySwap": 1 << 30, "RestartPolicy": restart});
    fails_with!(lab, "update_container", {"container": new_name}, "Nothing to change");
    // A refused change changes nothing.
    let other = lab.create("other", &["true"], json!({})).await;
    fails_with!(lab, "update_container", {"container": new_name, "memory_mb": 20, "new_name": other},
        "Another container has the name");
    fails_with!(lab, "update_container",
        {"container": other, "memory_mb": 20, "new_name": lab.name("x"), "paused": true}, "does not run");
    for (name, memory) in [(&new_name, 64 << 20), (&other, 0)] {
        assert_has!(lab.inspect(name).await, {"HostConfig": {"Memory": memory}});
    }
}

#[tokio::test]
async fn what_loses_data_needs_a_confirmation() {
    let Some(lab) = lab().await else { return };
    let script = "trap 'echo reloaded' HUP; echo ready; while true; do sleep 0.1; done";
    let name = lab.run("web", &["sh", "-c", script], json!({})).await;
    lab.until_written(&name, "ready", 1).await;
    succeed!(lab, "kill_container", {"container": name, "signal": "HUP"});
    lab.until_written(&name, "reloaded", 1).await;
    let (loss, killed) = confirmed(&lab, "kill_container", json!({"container": name}), &name).await;
    assert!(loss.contains("unsaved data is lost"), "{loss}");
    assert_eq!(killed["before"], "running");
    lab.until(&name, "exited").await;

    let more = json!({"HostConfig": {"AutoRemove": true}, "StopTimeout": 0});
    let name = lab.sleep("once", more).await;
    let (loss, stopped) =
        confirmed(&lab, "stop_container", json!({"container": name}), &name).await;
    assert!(loss.contains("--rm"), "{loss}");
    let after = stopped["after"].as_str().unwrap();
    let is_gone = ["removed", "removing", "exited"].contains(&after);
    assert!(is_gone, "{stopped}");

    let volumes = json!({"Volumes": {"/data": {}}});
    let name = lab.sleep("db", volumes).await;
    fails_with!(lab, "remove_container", {"container": name}, "stop it first");
    let arguments = json!({"container": name, "force": true, "volumes": true});
    let (loss, removed) = confirmed(&lab, "remove_container", arguments, &name).await;
    assert_contains(&loss, "while it runs");
    assert_contains(&loss, "the data in /data");
    assert_eq!(removed["after"], "removed");
    fails_with!(lab, "remove_container", {"container": name}, "There is no container");
}

/// Also one that is a message for most programs.
#[tokio::test]
async fn signal_that_ends_a_container_is_reported_and_asks_if_that_removes_it() {
    let Some(lab) = lab().await else { return };
    let script = "trap 'exit 7' USR1; echo ready; while true; do sleep 0.1; done";
    let name = lab.create("web", &["sh", "-c", script], json!({})).await;
    let mut runs = 0;
    // A busy machine may need more than the second for which it is watched.
    let killed = eventually("an end", async || {
        lab.start(&name).await.unwrap();
        runs += 1;
        lab.until_written(&name, "ready", runs).await;
        let killed = succeed!(lab, "kill_container", {"container": name, "signal": "USR1"});
        lab.until(&name, "exited").await;
        (killed["after"] == "exited").then_some(killed)
    })
    .await;
    assert_has!(killed, {"before": "running", "exit_code": 7});

    let once = json!({"HostConfig": {"AutoRemove": true}});
    let once = lab.run("once", &["sh", "-c", script], once).await;
    lab.until_written(&once, "ready", 1).await;
    let arguments = json!({"container": once, "signal": "USR1"});
    let (loss, killed) = confirmed(&lab, "kill_container", arguments, &once).await;
    assert_contains(&loss, "the engine removes it");
    assert_eq!(killed["before"], "running");
}

#[tokio::test]
async fn sections_are_chosen() {
    let Some(lab) = lab().await else { return };
    let script = "mkdir -p /tmp; echo x > /tmp/new; exec sleep 600";
    let env = json!({"Env": ["A=1"]});
    let name = lab.run("web", &["sh", "-c", script], env).await;
    let get = async |sections: &[&str]| {
        let arguments = json!({"container": name, "sections": sections});
        succeed(&lab, "get_container", arguments).await
    };
    let all = get(&[]).await;
    assert!(all["env"].is_array() && all["networks"].is_object() && all["processes"].is_null());
    let some = get(&["env"]).await;
    assert!(some["env"].is_array() && some["networks"].is_null() && some["command"].is_null());
    // Once its script has come to the end.
    wait_until("its change", async || {
        let inside = get(&["processes", "changes"]).await;
        let mut processes = texts(&inside["processes"]).into_iter();
        let has_change = inside["changes"].to_string().contains("\"A /tmp/new\"");
        has_change && processes.any(|line| line.contains("sleep 600"))
    })
    .await;
}

#[tokio::test]
async fn wait_returns_at_the_end_and_with_health() {
    let Some(lab) = lab().await else { return };
    let job = lab.run_script("job", "sleep 1; exit 3").await;
    let waited = succeed!(lab, "wait_container", {"container": job, "timeout_seconds": 600});
    assert_has!(waited, {"reached": true, "exit_code": 3});
    let new = lab.create("new", &["true"], json!({})).await;
    let waited = succeed!(lab, "wait_container", {"container": new});
    assert_has!(waited, {"reached": false, "exit_code": null, "state": "created"});
    let long = lab.sleep("long", json!({})).await;
    let waited = succeed!(lab, "wait_container", {"container": long, "timeout_seconds": 1});
    assert_has!(waited, {"reached": false, "state": "running"});
    fails_with!(lab, "wait_container", {"container": long, "until": "healthy"}, "no health check");

    let check =
        json!({"Healthcheck": {"Test": ["CMD-SHELL", "test -e /tmp/ok"], "Interval": 200_000_000}});
    let script = "mkdir -p /tmp; sleep 1; touch /tmp/ok; sleep 600";
    let name = lab.run("web", &["sh", "-c", script], check).await;
    let waited = succeed!(lab, "wait_container", {"container": name, "until": "healthy", "timeout_seconds": 600});
    assert_has!(waited, {"reached": true, "health": "healthy"});
}

#[tokio::test]
async fn wait_can_run_as_a_task_and_be_cancelled() {
    let Some(lab) = lab().await else { return };
    let mut session = StdioSession::open(&lab.host, &[]).await;
    let job = lab.run_script("job", "sleep 2; exit 4").await;
    let arguments = json!({"container": job, "timeout_seconds": 600});
    let task = session.start_task("wait_container", arguments).await;
    let id = session.ask("tasks/result", json!({"taskId": task})).await;
    let answer = session.answer(id).await;
    assert_has!(answer, {"result": {"structuredContent": {"exit_code": 4}}});

    let long = lab.sleep("long", json!({})).await;
    let arguments = json!({"container": long, "timeout_seconds": 600});
    let task = session.start_task("wait_container", arguments).await;
    let id = session.ask("tasks/cancel", json!({"taskId": task})).await;
    let answer = session.answer(id).await;
    assert_eq!(answer["result"]["status"], "cancelled", "{answer}");
}

#[tokio::test]
async fn log_lines_are_sent_as_progress() {
    let Some(lab) = lab().await else { return };
    let script = "while [ ! -e /enough ]; do echo line password=hunter2; sleep 0.1; done; \
        echo the end password=hunter2; while true; do echo more; sleep 0.1; done";
    let name = lab.run_script("web", script).await;
    let mut session = StdioSession::open(&lab.host, &[]).await;
    let arguments = json!({"container": name, "follow_seconds": 600, "until_match": "^the end "});
    let id = session.start("get_container_logs", arguments).await;
    let mut progress = Vec::new();
    for _ in 0..2 {
        progress.push(session.until("notifications/progress").await["params"].clone());
        let said = progress[progress.len() - 1]["message"].as_str().unwrap();
        assert!(said.starts_with("line "), "{said}");
    }
    succeed!(lab, "copy_to_container", {"container": name, "path": "/enough", "text": ""});
    let (answer, more) = session.answer_with_progress(id).await;
    progress.extend(more);
    let followed = &answer["result"]["structuredContent"];
    assert_eq!(followed["stopped_by"], "matched", "{answer}");
    let all = json!([answer, progress]).to_string();
    assert!(!all.contains("hunter2"), "{all}");

    // A cancelled call has no answer.
    let arguments = json!({"container": name, "follow_seconds": 600});
    let id = session.start("get_container_logs", arguments).await;
    session.until("notifications/progress").await;
    session.cancel(id).await;
    let ping = session.ask("ping", json!({})).await;
    assert!(session.answer(ping).await["result"].is_object());
}

/// As `docker compose logs --follow` does.
#[tokio::test]
async fn containers_that_a_project_starts_are_followed_too() {
    let Some(lab) = lab().await else { return };
    let [project, other] = ["shop", "other"].map(|name| lab.name(name));
    let of = |project: &str, service: &str| json!({"Labels": of_compose(project, service)});
    let ticks = "while true; do echo tick; sleep 0.2; done";
    lab.run("old", &["sh", "-c", ticks], of(&project, "web"))
        .await;
    let mut session = StdioSession::open(&lab.host, &[]).await;
    let arguments = json!({"project": project, "service": "web", "follow_seconds": 600, "until_match": "^fresh"});
    let id = session.start("get_container_logs", arguments).await;
    session.until("notifications/progress").await;
    for (name, labels) in [
        ("db", of(&project, "db")),
        ("foreign", of(&other, "web")),
        ("new", of(&project, "web")),
    ] {
        let script = format!("echo fresh of {name}; sleep 600");
        lab.run(name, &["sh", "-c", &script], labels).await;
    }
    let followed = &session.answer(id).await["result"]["structuredContent"];
    assert_has!(followed, {"stopped_by": "matched", "matched": "fresh of new"});
    let line = format!("{} | fresh of new", lab.name("new"));
    assert_contains(&followed["log"], &line);
}

/// The engine counts `tail` from the newest line, also where that is after `until`.
#[tokio::test]
async fn lines_before_a_time_are_found_behind_many_newer_ones() {
    let Some(lab) = lab().await else { return };
    let script = "for i in 1 2 3; do echo old $i; done; sleep 2; for i in $(seq 1 300); do echo new $i; done";
    let name = lab.finish("job", &["sh", "-c", script], json!({})).await;
    let first = succeed!(lab, "get_container_logs", {"container": name, "grep": "new 1$", "timestamps": true});
    let until = format!("{}Z", &first["log"].as_str().unwrap()[..19]);
    let log = succeed!(lab, "get_container_logs", {"container": name, "until": until, "tail": 2});
    assert_has!(log, {"log": "old 2\nold 3", "truncated": true});
}
