//! Waiting for containers, following and searching their logs, measuring what they use.

use serde_json::{Value, json};

use super::talk::Talk;
use super::{fail, lab, succeed};

#[tokio::test]
async fn the_end_of_a_container_is_waited_for() {
    let Some(mut lab) = lab().await else { return };
    let job = lab
        .run("job", &["sh", "-c", "sleep 1; exit 3"], json!({}))
        .await;
    let waited = succeed(&lab, "wait_container", json!({"container": job})).await;
    assert_has!(waited, {"reached": true, "exit_code": 3});
    let long = lab.run("long", &["sleep", "600"], json!({})).await;
    let waited = succeed!(lab, "wait_container", {"container": long, "timeout_seconds": 1});
    assert_has!(waited, {"reached": false, "state": "running"});
    let unknown = fail!(lab, "wait_container", {"container": long, "until": "healthy"});
    assert!(unknown.contains("no health check"), "{unknown}");
}

#[tokio::test]
async fn health_is_waited_for() {
    let Some(mut lab) = lab().await else { return };
    let check =
        json!({"Healthcheck": {"Test": ["CMD-SHELL", "test -e /tmp/ok"], "Interval": 200_000_000}});
    let command = [
        "sh",
        "-c",
        "mkdir -p /tmp; sleep 1; touch /tmp/ok; sleep 600",
    ];
    let name = lab.run("web", &command, check).await;
    let waited = succeed!(lab, "wait_container", {"container": name, "until": "healthy"});
    assert_has!(waited, {"reached": true, "health": "healthy"});
}

#[tokio::test]
async fn a_wait_goes_on_as_a_task_and_is_cancelled() {
    let Some(mut lab) = lab().await else { return };
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
    assert_has!(answer, {"result": {"structuredContent": {"exit_code": 4}}});

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
    let Some(mut lab) = lab().await else { return };
    let script = "while [ ! -e /enough ]; do echo line password=hunter2; sleep 0.1; done; \
        echo the end password=hunter2; while true; do echo more; sleep 0.1; done";
    let name = lab.run("web", &["sh", "-c", script], json!({})).await;
    let mut talk = Talk::open(&lab.host, &[]).await;
    let arguments = json!({"container": name, "seconds": 600, "until_match": "^the end "});
    let id = talk.start("follow_container_logs", arguments).await;
    let mut progress = Vec::new();
    for _ in 0..2 {
        progress.push(talk.until("notifications/progress").await["params"].clone());
        let said = progress[progress.len() - 1]["message"].as_str().unwrap();
        assert!(said.starts_with("line "), "{said}");
    }
    succeed!(lab, "copy_to_container", {"container": name, "path": "/enough", "text": ""});
    let (answer, more) = talk.answer_with_progress(id).await;
    progress.extend(more);
    let followed = &answer["result"]["structuredContent"];
    assert_eq!(followed["stopped_by"], "matched", "{answer}");
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
    let Some(mut lab) = lab().await else { return };
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
    let all = succeed(&lab, "get_container_stats", json!({})).await;
    let rows = all["containers"].as_array().unwrap();
    assert!(
        rows.iter().any(|row| row["container"] == json!(busy)),
        "{all}"
    );
    lab.docker.stop_container(&idle, None).await.unwrap();
    let ended = fail!(lab, "get_container_stats", {"container": idle});
    assert!(ended.contains("does not run"), "{ended}");
}

#[tokio::test]
async fn a_log_is_searched() {
    let Some(mut lab) = lab().await else { return };
    let script =
        "for i in $(seq 1 300); do echo line $i; done; echo API_TOKEN=abc123 >&2; echo Last ERROR";
    let name = lab.finish("job", &["sh", "-c", script], json!({})).await;
    let grep = async |pattern: &str, more: Value| {
        let mut arguments = json!({"container": name, "grep": pattern});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        succeed(&lab, "get_container_logs", arguments).await["log"]
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
