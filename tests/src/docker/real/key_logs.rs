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

struct KeyLog {
    lab: Lab,
    container: String,
    project: String,
    /// The inner lines of its keys.
    secrets: Vec<String>,
    lines: usize,
}

impl KeyLog {
    /// A container whose log has these keys, each followed by two other lines.
    async fn new(keys: &[(&str, usize, usize)]) -> Option<Self> {
        let lab = lab().await?;
        let (mut lines, mut secrets) = (vec!["started".to_owned()], Vec::new());
        for (label, width, last) in keys {
            let body = body(*width, 7, *last);
            lines.push(format!("-----BEGIN {label}-----"));
            lines.extend(body.iter().cloned());
            lines.push(format!("-----END {label}-----"));
            lines.extend(["loaded the key".to_owned(), "ready to serve".to_owned()]);
            secrets.extend(body);
        }
        let script = format!("cat <<'E'\n{}\nE\nsleep 600", lines.join("\n"));
        let project = lab.name("shop");
        let labels = json!({"Labels": of_compose(&project, "web")});
        let container = lab.run("web", &["sh", "-c", &script], labels).await;
        Some(Self {
            lab,
            container,
            project,
            secrets,
            lines: lines.len(),
        })
    }

    /// Calls a tool; nothing that it answers has a part of a key.
    async fn ask(&self, tool: &str, mut arguments: Value) -> String {
        arguments["container"] = json!(self.container);
        self.ask_exactly(tool, arguments).await
    }

    async fn ask_exactly(&self, tool: &str, arguments: Value) -> String {
        let shown = call(&self.lab, tool, arguments.clone()).await;
        assert_eq!(shown["isError"], false, "{tool} {arguments}: {shown}");
        let text = shown["content"][0]["text"].as_str().unwrap().to_owned();
        for secret in &self.secrets {
            let part = &secret[..secret.len().min(12)];
            assert!(!text.contains(part), "{tool} {arguments}: {text}");
        }
        text
    }
}

#[tokio::test]
async fn no_window_of_a_log_shows_a_line_of_a_key() {
    for keys in [
        &[("PRIVATE KEY", 64, 24)][..],
        &[("RSA PRIVATE KEY", 64, 13), ("OPENSSH PRIVATE KEY", 70, 20)],
        &[("EC PRIVATE KEY", 48, 17)],
    ] {
        let Some(log) = KeyLog::new(keys).await else {
            return;
        };
        let name = log.lab.name("web");
        log.lab.until(&name, "running").await;
        let until = json!({"tail": 500, "until_match": "^ready to serve$", "follow_seconds": 600});
        log.ask("get_container_logs", until).await;
        for tail in 1..=log.lines {
            let shown = log.ask("get_container_logs", json!({"tail": tail})).await;
            assert!(shown.contains("ready to serve"), "{shown}");
            let timed = json!({"tail": tail, "timestamps": true});
            log.ask("get_container_logs", timed).await;
            let project = json!({"project": log.project, "tail": tail});
            log.ask_exactly("get_container_logs", project).await;
        }
        let patterns = log
            .secrets
            .iter()
            .map(|secret| secret[..6].replace('+', "\\+"));
        let all = [".", "=", "[A-Z]", "^.{10,50}$"].map(str::to_owned);
        for pattern in patterns.chain(all) {
            let grep = json!({"grep": pattern, "tail": 5000});
            log.ask("get_container_logs", grep).await;
            let project = json!({"project": log.project, "grep": pattern});
            log.ask_exactly("get_container_logs", project).await;
        }
        for tail in [1, 3, 4, 5, 9] {
            let until = json!({"tail": tail, "until_match": "[A-Z]{2}|ready", "follow_seconds": 5});
            log.ask("get_container_logs", until).await;
        }
        log.ask("diagnose_container", json!({})).await;
    }
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
