//! Private keys in the log of a container: no window, filter or page shows a line of them.

use crate::docker::prelude::*;

/// Base64 of random bytes.
fn random(length: usize) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = "Aa0".to_owned();
    while text.len() < length {
        for byte in uuid::Uuid::new_v4().into_bytes() {
            text.push(char::from(LETTERS[usize::from(byte % 64)]));
        }
    }
    text.truncate(length);
    text
}

/// The lines of a key between its first and its last one.
fn body(width: usize, lines: usize, last: usize) -> Vec<String> {
    let mut body: Vec<_> = (0..lines).map(|_| random(width)).collect();
    body.push(random(last) + &"=".repeat(last % 3));
    body
}

#[tokio::test]
async fn no_window_of_a_log_shows_a_line_of_a_key() {
    let Some(lab) = lab().await else { return };
    let (mut lines, mut secrets) = (vec!["started".to_owned()], Vec::new());
    // Each key is followed by two other lines.
    for (label, width, last) in [
        ("PRIVATE KEY", 64, 24),
        ("RSA PRIVATE KEY", 64, 13),
        ("OPENSSH PRIVATE KEY", 70, 20),
        ("EC PRIVATE KEY", 48, 17),
    ] {
        let body = body(width, 7, last);
        lines.push(format!("-----BEGIN {label}-----"));
        lines.extend(body.iter().cloned());
        lines.push(format!("-----END {label}-----"));
        lines.extend(["loaded the key".to_owned(), "ready to serve".to_owned()]);
        secrets.extend(body);
    }
    let script = format!("cat <<'E'\n{}\nE\nsleep 600", lines.join("\n"));
    let project = lab.name("shop");
    let labels = json!({"Labels": of_compose(&project, "web")});
    let web = lab.run("web", &["sh", "-c", &script], labels).await;
    lab.until_written(&web, "ready to serve", 4).await;
    let ask = async |tool: &str, arguments: Value| {
        let shown = call(&lab, tool, arguments.clone()).await;
        assert_eq!(shown["isError"], false, "{tool} {arguments}: {shown}");
        let text = shown["content"][0]["text"].to_string();
        for secret in &secrets {
            let part = &secret[..secret.len().min(12)];
            assert!(!text.contains(part), "{tool} {arguments}: {text}");
        }
        text
    };
    let read = async |more: Value| {
        let arguments = merged(more, json!({"container": web}));
        ask("get_container_logs", arguments).await
    };
    let of_project = async |more: Value| {
        let arguments = merged(more, json!({"project": project}));
        ask("get_container_logs", arguments).await
    };
    for tail in 1..=lines.len() {
        let shown = read(json!({"tail": tail})).await;
        assert_contains(&shown, "ready to serve");
        read(json!({"tail": tail, "timestamps": true})).await;
        of_project(json!({"tail": tail})).await;
    }
    let patterns = secrets.iter().map(|secret| secret[..6].replace('+', "\\+"));
    let all = [".", "=", "[A-Z]", "^.{10,50}$"].map(str::to_owned);
    for pattern in patterns.chain(all) {
        read(json!({"grep": pattern, "tail": 5000})).await;
        of_project(json!({"grep": pattern})).await;
    }
    for tail in [1, 3, 4, 5, 9, 500] {
        let until = json!({"tail": tail, "until_match": "[A-Z]{2}|ready", "follow_seconds": 5});
        read(until).await;
    }
    ask("diagnose_container", json!({"container": web})).await;
}

#[tokio::test]
async fn value_is_hidden_whose_name_is_in_the_line_before() {
    let Some(lab) = lab().await else { return };
    for (name, first, before) in [
        ("yaml", "- name: DB_PASSWORD", "  value: "),
        ("below", "the new PASSWORD:", "  "),
    ] {
        let script = format!("echo '{first}'; echo '{before}hunter2x'");
        let web = lab.finish(name, &["sh", "-c", &script], json!({})).await;
        for more in [
            json!({}),
            json!({"tail": 1}),
            json!({"tail": 1, "timestamps": true}),
            json!({"grep": "\\*"}),
            json!({"grep": "\\*", "follow_seconds": 600, "tail": 10}),
            json!({"until_match": "\\*", "follow_seconds": 600, "tail": 10}),
        ] {
            let arguments = merged(more, json!({"container": web}));
            let log = call(&lab, "get_container_logs", arguments).await;
            assert_contains(&log, &format!("{before}***"));
            assert_lacks(&log, "hunter2x");
        }
    }
}
