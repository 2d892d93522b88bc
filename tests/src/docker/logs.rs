//! `get_container_logs`.

use serde_json::{Value, json};

use super::lab::{Lab, lab, merged};
use super::{fail, invalid, succeed};
use crate::harness::{assert_contains, assert_ends_with, assert_starts_with};

async fn log(lab: &Lab, name: &str, more: Value) -> Value {
    let arguments = merged(more, json!({"container": name}));
    succeed(lab, "get_container_logs", arguments).await
}

#[tokio::test]
async fn the_newest_lines_are_read() {
    let Some(mut lab) = lab().await else { return };
    let script = "for i in $(seq 150); do echo line $i; done; echo oops >&2";
    let name = lab.finish("lines", &["sh", "-c", script], json!({})).await;

    let last = log(&lab, &name, json!({"tail": 2, "stream": "stdout"})).await;
    assert_has!(last, {"log": "line 149\nline 150", "lines": 2, "truncated": true});
    let hundred = log(&lab, &name, json!({})).await;
    assert_eq!(hundred["lines"], 100);
    assert_contains(&hundred["note"], "tail");
    let all = log(&lab, &name, json!({"tail": 500})).await;
    assert_has!(all, {"lines": 151, "truncated": false});
    let stderr = log(&lab, &name, json!({"stream": "stderr"})).await;
    assert_eq!(stderr["log"], "oops");
    let timed = json!({"tail": 1, "stream": "stderr", "timestamps": true});
    let timed = log(&lab, &name, timed).await;
    let timed = timed["log"].as_str().unwrap();
    assert_starts_with(&timed, "20");
    assert_ends_with(&timed, "Z oops");
    assert_eq!(log(&lab, &name, json!({"since": "1h"})).await["lines"], 100);
    let future = json!({"since": "2100-01-01T00:00:00Z"});
    assert_eq!(log(&lab, &name, future).await["lines"], 0);
    let arguments = json!({"container": name, "since": "soon"});
    let error = invalid(&lab, "get_container_logs", arguments).await;
    assert_eq!(error["data"]["field"], "since", "{error}");
    let arguments = json!({"container": name, "grep": "x".repeat(1_001)});
    invalid(&lab, "get_container_logs", arguments).await;
    for wrong in [json!({}), json!({"container": name, "project": "x"})] {
        let text = fail(&lab, "get_container_logs", wrong).await;
        assert_contains(&text, "either `container`, or `project`");
    }
}

#[tokio::test]
async fn escapes_and_invalid_bytes_become_text() {
    let Some(mut lab) = lab().await else { return };
    let script = r"printf '\033[31mred\033[0m\a\n10%%\r100%%\nbad \377 byte\nno line end'";
    let expected = "red\n100%\nbad \u{fffd} byte\nno line end";
    let plain = lab.finish("plain", &["sh", "-c", script], json!({})).await;
    assert_eq!(log(&lab, &plain, json!({})).await["log"], expected);
    let (command, tty) = (["sh", "-c", script], json!({"Tty": true}));
    let terminal = lab.finish("terminal", &command, tty).await;
    assert_eq!(log(&lab, &terminal, json!({})).await["log"], expected);
}

#[tokio::test]
async fn answer_with_a_huge_log_is_small() {
    let Some(mut lab) = lab().await else { return };
    // Lines of 200 bytes, and one of 40,000, which the engine sends in three frames.
    let script =
        "for i in $(seq 2000); do printf '%0200d\\n' $i; done; printf '%040000d\\n' 7; echo end";
    let name = lab.finish("huge", &["sh", "-c", script], json!({})).await;
    let answer = log(&lab, &name, json!({"tail": 5000, "timestamps": true})).await;
    let bytes = answer.to_string().len();
    assert!(bytes < 16_500, "{bytes}");
    assert_eq!(answer["truncated"], true);
    assert!(answer["note"].as_str().unwrap().contains("since"));
    let lines: Vec<&str> = answer["log"].as_str().unwrap().lines().collect();
    assert!(lines.last().unwrap().ends_with(" end"));
    let long = lines[lines.len() - 2];
    assert!(long.ends_with("more bytes)"), "{long}");
    assert_eq!(long.matches("Z ").count(), 1, "{long}");
}

#[tokio::test]
async fn whole_lines_are_searched() {
    let Some(mut lab) = lab().await else { return };
    let script =
        r"printf 'ERROR first\rall fine\n'; printf '%05000d password=canary-31 needle\n' 7";
    let name = lab.finish("long", &["sh", "-c", script], json!({})).await;
    let found = log(&lab, &name, json!({"grep": "needle$"})).await;
    let line = found["log"].as_str().unwrap();
    assert_starts_with(&line, "… 000");
    assert_ends_with(&line, "7 password=*** needle… (3990 more bytes)");
    // Nothing is hidden by writing over it.
    let found = log(&lab, &name, json!({"grep": "error"})).await;
    assert_eq!(found["log"], r"ERROR first\rall fine");
    let all = log(&lab, &name, json!({})).await;
    assert_ends_with(&all["log"], "more bytes)");
}

#[tokio::test]
async fn a_log_is_followed_over_restarts() {
    let Some(mut lab) = lab().await else { return };
    let script = "echo begin; i=$(cat /i || echo 0); echo $((i + 1)) > /i; echo run $i; sleep 1";
    let policy = json!({"HostConfig": {"RestartPolicy": {"Name": "always"}}});
    let name = lab.run("again", &["sh", "-c", script], policy).await;
    let until = json!({"container": name, "until_match": "^run 3$", "grep": "^run", "tail": 100,
        "stream": "stdout", "follow_seconds": 60});
    let followed = succeed(&lab, "get_container_logs", until).await;
    assert_has!(followed, {"stopped_by": "matched", "matched": "run 3"});
    assert_eq!(followed["log"], "run 0\nrun 1\nrun 2\nrun 3");
    let job = lab.run_script("job", "sleep 1; echo done").await;
    let followed = log(&lab, &job, json!({"follow_seconds": 60})).await;
    assert_has!(followed, {"stopped_by": "ended", "log": "done"});
}

#[tokio::test]
async fn log_driver_without_a_log_is_explained() {
    let Some(mut lab) = lab().await else { return };
    let none = json!({"HostConfig": {"LogConfig": {"Type": "none"}}});
    let name = lab.finish("mute", &["echo", "hi"], none).await;
    fails_with!(lab, "get_container_logs", {"container": name}, "log driver", "json-file");
    let silent = lab.finish("silent", &["true"], json!({})).await;
    let empty = log(&lab, &silent, json!({})).await;
    assert_eq!((&empty["log"], &empty["lines"]), (&json!(""), &json!(0)));
}
