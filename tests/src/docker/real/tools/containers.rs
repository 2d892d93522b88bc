//! Creating, changing, waiting, watching, removing.

use serde_json::{Value, json};

use super::talk::Talk;
use super::{confirmed, fail, lab, succeed, texts};

#[tokio::test]
async fn a_container_is_created_and_started() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let name = lab.adopt("web");
    let arguments = json!({
        "image": "busybox:test", "name": name, "command": ["sleep", "600"],
        "env": {"GREETING": "a=b c"}, "labels": {"tier": "web"}, "ports": ["80"],
        "memory_mb": 32, "cpus": 0.5, "restart": "on-failure", "working_dir": "/bin", "user": "1000",
    });
    let created = succeed(&lab.server, "create_container", arguments).await;
    assert_eq!(
        (&created["name"], &created["state"]),
        (&json!(name), &json!("running"))
    );
    // Only on loopback, unless another address is given.
    let port = created["ports"][0].as_str().unwrap();
    assert!(
        port.starts_with("127.0.0.1:") && port.ends_with("->80/tcp"),
        "{port}"
    );
    let details = lab.docker.inspect_container(&name, None).await.unwrap();
    let config = details.config.unwrap();
    assert!(config.env.unwrap().contains(&"GREETING=a=b c".to_owned()));
    assert_eq!(config.labels.unwrap()["docker-mcp-server.created"], "true");
    assert_eq!(details.host_config.unwrap().memory, Some(32 << 20));
}

#[tokio::test]
async fn what_ends_at_once_or_cannot_start_says_why() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let name = lab.adopt("short");
    let arguments =
        json!({"image": "busybox:test", "name": name, "command": ["sh", "-c", "echo no; exit 3"]});
    let created = succeed(&lab.server, "create_container", arguments.clone()).await;
    assert_eq!(
        (&created["exit_code"], &created["log"]),
        (&json!(3), &json!("no"))
    );
    let taken = fail(&lab.server, "create_container", arguments).await;
    assert!(taken.contains("already in use"), "{taken}");

    let name = lab.adopt("broken");
    let arguments = json!({"image": "busybox:test", "name": name, "command": ["/nope"]});
    let broken = fail(&lab.server, "create_container", arguments).await;
    assert!(
        broken.contains("exit code 127") && broken.contains("remove_container"),
        "{broken}"
    );
    let arguments = json!({"image": "busybox:tset"});
    let missing = fail(&lab.server, "create_container", arguments).await;
    assert!(missing.contains("Did you mean `busybox:test`"), "{missing}");
}

#[tokio::test]
async fn a_container_is_only_created() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let name = lab.adopt("later");
    let arguments =
        json!({"image": "busybox:test", "name": name, "command": ["true"], "only_create": true});
    let created = succeed(&lab.server, "create_container", arguments).await;
    assert_eq!(created["state"], "created");
    assert_eq!(lab.state(&name).await, "created");
}

#[tokio::test]
async fn a_container_is_paused_and_goes_on() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let name = lab.run("web", &["sleep", "600"], json!({})).await;
    let pause = async |unpause: bool| {
        let arguments = json!({"container": name, "unpause": unpause});
        succeed(&lab.server, "pause_container", arguments).await
    };
    assert_eq!(pause(false).await["after"], "paused");
    assert_eq!(lab.state(&name).await, "paused");
    assert_eq!(pause(false).await["changed"], false);
    assert_eq!(pause(true).await["after"], "running");
    assert_eq!(pause(true).await["changed"], false);
}

#[tokio::test]
async fn limits_and_name_are_changed_while_it_runs() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let name = lab.run("web", &["sleep", "600"], json!({})).await;
    let new_name = lab.adopt("renamed");
    let arguments = json!({"container": name, "memory_mb": 64, "cpus": 0.25, "pids": 20,
        "restart": "always", "new_name": new_name});
    let updated = succeed(&lab.server, "update_container", arguments).await;
    assert_eq!(updated["container"], json!(new_name));
    let details = lab.docker.inspect_container(&new_name, None).await.unwrap();
    let host = details.host_config.unwrap();
    assert_eq!(
        (host.memory, host.nano_cpus),
        (Some(64 << 20), Some(250_000_000))
    );
    assert_eq!(host.pids_limit, Some(20));
    let nothing = fail(
        &lab.server,
        "update_container",
        json!({"container": new_name}),
    )
    .await;
    assert!(nothing.contains("Nothing to change"), "{nothing}");
}

#[tokio::test]
async fn a_kill_is_confirmed_and_a_message_is_not() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let script = "trap 'echo reloaded' HUP; echo ready; while true; do sleep 0.1; done";
    let name = lab.run("web", &["sh", "-c", script], json!({})).await;
    let arguments = json!({"container": name, "until_match": "ready", "tail": 10});
    succeed(&lab.server, "follow_container_logs", arguments).await;
    let arguments = json!({"container": name, "signal": "HUP"});
    succeed(&lab.server, "kill_container", arguments).await;
    let arguments = json!({"container": name, "until_match": "reloaded", "tail": 10});
    let log = succeed(&lab.server, "follow_container_logs", arguments).await;
    assert_eq!(log["stopped_by"], "matched", "{log}");
    let (loss, killed) = confirmed(&lab, "kill_container", json!({"container": name}), &name).await;
    assert!(loss.contains("not saved is lost"), "{loss}");
    assert_eq!(killed["before"], "running");
    lab.until(&name, "exited").await;
}

#[tokio::test]
async fn a_removal_says_what_goes_with_it() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let volumes = json!({"Volumes": {"/data": {}}});
    let name = lab.run("db", &["sleep", "600"], volumes).await;
    let running = fail(&lab.server, "remove_container", json!({"container": name})).await;
    assert!(running.contains("stop it first"), "{running}");
    let arguments = json!({"container": name, "force": true, "volumes": true});
    let (loss, removed) = confirmed(&lab, "remove_container", arguments, &name).await;
    assert!(
        loss.contains("while it runs") && loss.contains("the data in /data"),
        "{loss}"
    );
    assert_eq!(removed["after"], "removed");
    let again = fail(&lab.server, "remove_container", json!({"container": name})).await;
    assert!(again.contains("There is no container"), "{again}");
}

#[tokio::test]
async fn the_end_of_a_container_is_waited_for() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let job = lab
        .run("job", &["sh", "-c", "sleep 1; exit 3"], json!({}))
        .await;
    let waited = succeed(&lab.server, "wait_container", json!({"container": job})).await;
    assert_eq!(
        (&waited["reached"], &waited["exit_code"]),
        (&json!(true), &json!(3))
    );
    let long = lab.run("long", &["sleep", "600"], json!({})).await;
    let arguments = json!({"container": long, "timeout_seconds": 1});
    let waited = succeed(&lab.server, "wait_container", arguments).await;
    assert_eq!(
        (&waited["reached"], &waited["state"]),
        (&json!(false), &json!("running"))
    );
    let arguments = json!({"container": long, "until": "healthy"});
    let unknown = fail(&lab.server, "wait_container", arguments).await;
    assert!(unknown.contains("no health check"), "{unknown}");
}

#[tokio::test]
async fn health_is_waited_for() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let check =
        json!({"Healthcheck": {"Test": ["CMD-SHELL", "test -e /tmp/ok"], "Interval": 200_000_000}});
    let command = [
        "sh",
        "-c",
        "mkdir -p /tmp; sleep 1; touch /tmp/ok; sleep 600",
    ];
    let name = lab.run("web", &command, check).await;
    let arguments = json!({"container": name, "until": "healthy"});
    let waited = succeed(&lab.server, "wait_container", arguments).await;
    assert_eq!(
        (&waited["reached"], &waited["health"]),
        (&json!(true), &json!("healthy"))
    );
}

#[tokio::test]
async fn a_wait_goes_on_as_a_task_and_is_cancelled() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let mut talk = Talk::open(&lab.host, &[]).await;
    let job = lab
        .run("job", &["sh", "-c", "sleep 2; exit 4"], json!({}))
        .await;
    let task = talk
        .start_task(
            "wait_container",
            json!({"container": job, "timeout_seconds": 60}),
        )
        .await;
    let id = talk.ask("tasks/result", json!({"taskId": task})).await;
    let answer = talk.answer(id).await;
    assert_eq!(
        answer["result"]["structuredContent"]["exit_code"], 4,
        "{answer}"
    );

    let long = lab.run("long", &["sleep", "600"], json!({})).await;
    let task = talk
        .start_task(
            "wait_container",
            json!({"container": long, "timeout_seconds": 600}),
        )
        .await;
    let id = talk.ask("tasks/cancel", json!({"taskId": task})).await;
    let answer = talk.answer(id).await;
    assert_eq!(answer["result"]["status"], "cancelled", "{answer}");
}

#[tokio::test]
async fn a_log_is_followed_line_by_line() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let script = "i=0; while true; do i=$((i+1)); echo line $i password=hunter2; sleep 0.1; done";
    let name = lab.run("web", &["sh", "-c", script], json!({})).await;
    let mut talk = Talk::open(&lab.host, &[]).await;
    let arguments = json!({"container": name, "seconds": 20, "until_match": "line (9|1[0-9]) "});
    let id = talk.start("follow_container_logs", arguments).await;
    let (answer, progress) = talk.answer_with_progress(id).await;
    let followed = &answer["result"]["structuredContent"];
    assert_eq!(followed["stopped_by"], "matched", "{answer}");
    assert!(progress.len() > 1, "{progress:?}");
    assert!(
        progress[0]["message"]
            .as_str()
            .unwrap()
            .starts_with("line ")
    );
    assert!(
        !answer.to_string().contains("hunter2") && !json!(progress).to_string().contains("hunter2")
    );

    // Given up, it answers no more.
    let id = talk
        .start(
            "follow_container_logs",
            json!({"container": name, "seconds": 600}),
        )
        .await;
    talk.until("notifications/progress").await;
    talk.cancel(id).await;
    let ping = talk.ask("ping", json!({})).await;
    assert!(talk.answer(ping).await["result"].is_object());
}

#[tokio::test]
async fn what_containers_use_is_measured() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let busy = lab
        .run("busy", &["sh", "-c", "while true; do :; done"], json!({}))
        .await;
    let idle = lab.run("idle", &["sleep", "600"], json!({})).await;
    let cpu = |stats: &Value| stats["containers"][0]["cpu_percent"].as_f64().unwrap();
    let stats = async |name: &str| {
        succeed(
            &lab.server,
            "get_container_stats",
            json!({"container": name}),
        )
        .await
    };
    // On a machine that others use too.
    let used = stats(&busy).await;
    assert!(cpu(&used) > 10.0 && cpu(&used) < 250.0, "{used}");
    let unused = stats(&idle).await;
    assert!(cpu(&unused) < 5.0, "{unused}");
    assert!(unused["containers"][0]["memory_bytes"].as_u64().unwrap() > 0);
    let all = succeed(&lab.server, "get_container_stats", json!({})).await;
    let rows = all["containers"].as_array().unwrap();
    assert!(
        rows.iter().any(|row| row["container"] == json!(busy)),
        "{all}"
    );
    lab.docker.stop_container(&idle, None).await.unwrap();
    let ended = fail(
        &lab.server,
        "get_container_stats",
        json!({"container": idle}),
    )
    .await;
    assert!(ended.contains("does not run"), "{ended}");
}

#[tokio::test]
async fn sections_are_chosen() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let script = "mkdir -p /tmp; echo x > /tmp/new; exec sleep 600";
    let name = lab
        .run("web", &["sh", "-c", script], json!({"Env": ["A=1"]}))
        .await;
    let get = async |sections: &[&str]| {
        let arguments = json!({"container": name, "sections": sections});
        succeed(&lab.server, "get_container", arguments).await
    };
    let all = get(&[]).await;
    assert!(all["env"].is_array() && all["networks"].is_object() && all["processes"].is_null());
    let some = get(&["env"]).await;
    assert!(some["env"].is_array() && some["networks"].is_null() && some["command"].is_null());
    let inside = get(&["processes", "changes"]).await;
    assert!(
        texts(&inside["processes"])
            .iter()
            .any(|line| line.contains("sleep 600")),
        "{inside}"
    );
    assert!(
        texts(&inside["changes"]).contains(&"A /tmp/new"),
        "{inside}"
    );
}

#[tokio::test]
async fn containers_are_filtered() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let labels = json!({"Labels": {"tier": "web", "com.docker.compose.project": lab.name("shop")}});
    let web = lab.run("web", &["sleep", "600"], labels).await;
    let old = lab.finish("old", &["true"], json!({})).await;
    let prefix = lab.name("");
    let names = async |mut filter: Value| {
        filter["name"] = json!(prefix);
        let listed = succeed(&lab.server, "list_containers", filter).await;
        let rows = listed["containers"].as_array().unwrap().clone();
        rows.iter()
            .map(|row| row["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(json!({"label": "tier"})).await, [web.clone()]);
    assert_eq!(names(json!({"label": "tier=web"})).await, [web.clone()]);
    assert!(names(json!({"label": "tier=db"})).await.is_empty());
    assert_eq!(names(json!({"state": "exited"})).await, [old.clone()]);
    assert_eq!(names(json!({"project": lab.name("shop")})).await, [web]);
    assert!(
        names(json!({"image": "nginx", "all": true}))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn a_log_is_searched() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let script =
        "for i in $(seq 1 300); do echo line $i; done; echo API_TOKEN=abc123 >&2; echo Last ERROR";
    let name = lab.finish("job", &["sh", "-c", script], json!({})).await;
    let grep = async |pattern: &str, more: Value| {
        let mut arguments = json!({"container": name, "grep": pattern});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        succeed(&lab.server, "get_container_logs", arguments).await["log"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(grep("^line 1[57]$", json!({})).await, "line 15\nline 17");
    assert_eq!(
        grep("^line", json!({"tail": 2})).await,
        "line 299\nline 300"
    );
    assert_eq!(grep("error", json!({})).await, "Last ERROR");
    let stamped = grep("^line 7$", json!({"timestamps": true})).await;
    assert!(stamped.ends_with("Z line 7"), "{stamped}");
    // What is hidden cannot be found out by looking for it.
    assert_eq!(grep("abc123", json!({})).await, "");
    assert_eq!(grep("API_TOKEN", json!({})).await, "API_TOKEN=***");
    assert_eq!(grep("line", json!({"until": "1h"})).await, "");
}
