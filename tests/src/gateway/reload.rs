//! Changes of the configuration while calls are running.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::env::{Folder, Gateway, misbehaving, text};
use crate::harness::{assert_contains, wait_until};

/// Waits until the newest event of a change of the configuration contains this text.
async fn until_last_change_says(gateway: &Gateway, text: &str) {
    wait_until(text, async || {
        let query = json!({"event_type": "gateway.config_changed", "limit": 1});
        let newest = gateway.own("get_events", query).await;
        newest.to_string().contains(text)
    })
    .await;
}

/// A setting that only a restart applies is told, until the file is what it was at the start.
#[tokio::test]
async fn changes_that_need_a_restart_are_told() {
    let config = "[backends.b]\nFIXTURE\n";
    let gateway = Gateway::of(config).await;
    let waiting = async || gateway.status().await["needs_restart"].clone();
    for (server, expected) in [
        ("[server]\nread_only = true\n", json!(["server.read_only"])),
        ("[events]\nrecord = [\"b__greet.name\"]\n", json!(null)),
        (
            "[server]\nport = 1\n[events]\nrows = 7\n",
            json!(["server.port", "events.rows"]),
        ),
        ("", json!(null)),
    ] {
        gateway.configure(&format!("{server}{config}"));
        wait_until(server, async || waiting().await == expected).await;
    }
    assert_contains(
        &gateway.log(),
        "a restart is needed for the changes of: server.read_only",
    );
}

/// R25.
#[tokio::test]
async fn hundred_changes_do_not_disturb_an_unchanged_backend() {
    let folder = Folder::new();
    let journal = folder.path("journal");
    let child = misbehaving(&["--journal", &journal]);
    let stays = format!("[backends.stays]\n{child}\n");
    let gateway = Gateway::start(folder, &stays, &[]).await;
    gateway.until("stays", "running").await;
    let file = gateway.folder.path("gateway.toml");
    let write = |config: &str| std::fs::write(&file, config).unwrap();
    let broken = "[backends.stays]\ncommand = 7\n";
    let with =
        |key: &str, args: &[&str]| format!("{stays}[backends.{key}]\n{}\n", misbehaving(args));
    let is_over = AtomicBool::new(false);
    let load = async {
        while !is_over.load(Ordering::Relaxed) {
            let four = (0..4).map(|n| gateway.tool("stays__work", json!({"n": n})));
            for result in futures_util::future::join_all(four).await {
                assert_eq!(text(&result), "done");
            }
        }
    };
    let changes = async {
        for n in 0..100 {
            match n % 5 {
                0 => write(&with("other", &[])),
                1 => write(broken),
                2 => {
                    let new = gateway.folder.write("new.toml", &stays);
                    std::fs::rename(new, &file).unwrap();
                }
                3 => std::fs::remove_file(&file).unwrap(),
                _ => write(&with("other", &["banner"])),
            }
            // Real time: the gateway sees some states of the file and misses others.
            tokio::time::sleep(Duration::from_millis(if n % 10 == 1 { 1200 } else { 60 })).await;
        }
        gateway.until_lists("other__work", true).await;
        write(broken);
        until_last_change_says(&gateway, "command").await;
        write(&with("last", &[]));
        gateway.until("last", "running").await;
        std::fs::remove_file(&file).unwrap();
        until_last_change_says(&gateway, "cannot be read: there is no such file").await;
        // The same content as before the error counts as a change.
        write(&with("last", &[]));
        until_last_change_says(&gateway, r#""status":"success""#).await;
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(load, changes);
    assert_eq!(gateway.folder.pids("journal").len(), 1, "restarted");
    wait_until("the other processes to exit", async || {
        // Each of the two has a shell that would end it after a kill of the gateway.
        super::real::descendants(gateway.pid()).len() <= 4
    })
    .await;
    let status = gateway.status().await;
    let backends: Vec<&String> = status["backends"].as_object().unwrap().keys().collect();
    assert_eq!(backends, ["last", "stays"]);
    let names = gateway.tool_names().await.join(" ");
    assert!(
        names.ends_with("last__work stays__work") && !names.contains("other"),
        "{names}"
    );
    let error = gateway.unknown_tool("other__work").await;
    assert_eq!(error, "Tool not found: other__work");
}
