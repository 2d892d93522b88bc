//! Waiting for containers, following and searching their logs, measuring what they use.

use serde_json::{Value, json};

use super::super::super::lab::merged;
use super::stdio_session::StdioSession;
use super::{fail, lab, succeed};

#[tokio::test]
async fn wait_returns_at_the_end_of_a_container() {
    let Some(mut lab) = lab().await else { return };
    let job = lab.run_script("job", "sleep 1; exit 3").await;
    let waited = succeed(&lab, "wait_container", json!({"container": job})).await;
    assert_has!(waited, {"reached": true, "exit_code": 3});
    let long = lab.run("long", &["sleep", "600"], json!({})).await;
    let waited = succeed!(lab, "wait_container", {"container": long, "timeout_seconds": 1});
    assert_has!(waited, {"reached": false, "state": "running"});
    fails_with!(lab, "wait_container", {"container": long, "until": "healthy"}, "no health check");
}

#[tokio::test]
async fn wait_returns_when_a_container_is_healthy() {
    let Some(mut lab) = lab().await else { return };
    let check =
        json!({"Healthcheck": {"Test": ["CMD-SHELL", "test -e /tmp/ok"], "Interval": 200_000_000}});
    let script = "mkdir -p /tmp; sleep 1; touch /tmp/ok; sleep 600";
    let name = lab.run("web", &["sh", "-c", script], check).await;
    let waited = succeed!(lab, "wait_container", {"container": name, "until": "healthy"});
    assert_has!(waited, {"reached": true, "health": "healthy"});
}

#[tokio::test]
async fn wait_can_run_as_a_task_and_be_cancelled() {
    let Some(mut lab) = lab().await else { return };
    let mut session = StdioSession::open(&lab.host, &[]).await;
    let job = lab.run_script("job", "sleep 2; exit 4").await;
    let arguments = json!({"container": job, "timeout_seconds": 60});
    let task = session.start_task("wait_container", arguments).await;
    let id = session.ask("tasks/result", json!({"taskId": task})).await;
    let answer = session.answer(id).await;
    assert_has!(answer, {"result": {"structuredContent": {"exit_code": 4}}});

    let long = lab.run("long", &["sleep", "600"], json!({})).await;
    let arguments = json!({"container": long, "timeout_seconds": 600});
    let task = session.start_task("wait_container", arguments).await;
    let id = session.ask("tasks/cancel", json!({"taskId": task})).await;
    let answer = session.answer(id).await;
    assert_eq!(answer["result"]["status"], "cancelled", "{answer}");
}

#[tokio::test]
async fn log_lines_are_sent_as_progress() {
    let Some(mut lab) = lab().await else { return };
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

#[tokio::test]
async fn resource_usage_is_measured() {
    let Some(mut lab) = lab().await else { return };
    let busy = lab.run_script("busy", "while true; do :; done").await;
    let idle = lab.run("idle", &["sleep", "600"], json!({})).await;
    let cpu = |stats: &Value| stats["containers"][0]["cpu_percent"].as_f64().unwrap();
    let stats = async |name: &str| succeed!(lab, "get_container_stats", {"container": name});
    // Wide bounds: other programs use the machine too.
    let used = stats(&busy).await;
    assert!(cpu(&used) > 10.0 && cpu(&used) < 250.0, "{used}");
    let unused = stats(&idle).await;
    assert!(cpu(&unused) < 5.0, "{unused}");
    assert!(unused["containers"][0]["memory_bytes"].as_u64().unwrap() > 0);
    let all = succeed(&lab, "get_container_stats", json!({})).await;
    let rows = all["containers"].as_array().unwrap();
    let is_listed = rows.iter().any(|row| row["container"] == json!(busy));
    assert!(is_listed, "{all}");
    lab.docker.stop_container(&idle, None).await.unwrap();
    fails_with!(lab, "get_container_stats", {"container": idle}, "is not running");
}

#[tokio::test]
async fn a_log_is_searched() {
    let Some(mut lab) = lab().await else { return };
    let script =
        "for i in $(seq 1 300); do echo line $i; done; echo API_TOKEN=abc123 >&2; echo Last ERROR";
    let name = lab.finish("job", &["sh", "-c", script], json!({})).await;
    let grep = async |pattern: &str, more: Value| -> String {
        let arguments = merged(more, json!({"container": name, "grep": pattern}));
        let answer = succeed(&lab, "get_container_logs", arguments).await;
        answer["log"].as_str().unwrap().to_owned()
    };
    assert_eq!(grep("^line 1[57]$", json!({})).await, "line 15\nline 17");
    let newest = grep("^line", json!({"tail": 2})).await;
    assert_eq!(newest, "line 299\nline 300");
    assert_eq!(grep("error", json!({})).await, "Last ERROR");
    let stamped = grep("^line 7$", json!({"timestamps": true})).await;
    assert!(stamped.ends_with("Z line 7"), "{stamped}");
    // A search cannot reveal a redacted value.
    assert_eq!(grep("abc123", json!({})).await, "");
    assert_eq!(grep("API_TOKEN", json!({})).await, "API_TOKEN=***");
    assert_eq!(grep("line", json!({"until": "1h"})).await, "");
}
