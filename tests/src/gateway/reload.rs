//! A configuration that changes while calls are under way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::lab::{Folder, Gateway, fixture, text};
use crate::harness::eventually;

/// R25.
#[tokio::test]
async fn a_hundred_changes_disturb_no_other_backend() {
    let folder = Folder::new();
    let journal = folder.path("journal");
    let stays = format!(
        "[backends.stays]\n{}\n",
        fixture(&["odd", "--journal", &journal])
    );
    let gateway = Gateway::start(folder, &stays, &[]).await;
    gateway.until("stays", "running").await;
    let file = gateway.folder.path("gateway.toml");
    let is_over = AtomicBool::new(false);
    let load = async {
        let mut calls = 0;
        while !is_over.load(Ordering::Relaxed) {
            let four = (0..4).map(|n| gateway.tool("stays__work", json!({"n": n})));
            for result in futures_util::future::join_all(four).await {
                assert_eq!(text(&result), "done");
            }
            calls += 4;
        }
        calls
    };
    let changes = async {
        for n in 0..100 {
            match n % 5 {
                0 => std::fs::write(
                    &file,
                    format!("{stays}[backends.other]\n{}\n", fixture(&["odd"])),
                )
                .unwrap(),
                1 => std::fs::write(&file, "[backends.stays]\ncommand = 7\n").unwrap(),
                2 => {
                    let new = gateway.folder.write("new.toml", &stays);
                    std::fs::rename(new, &file).unwrap();
                }
                3 => std::fs::remove_file(&file).unwrap(),
                _ => std::fs::write(
                    &file,
                    format!("{stays}[backends.other]\n{}\n", fixture(&["odd", "banner"])),
                )
                .unwrap(),
            }
            // Real time: some states of the file are seen, and some are gone before.
            tokio::time::sleep(Duration::from_millis(if n % 10 == 1 { 1200 } else { 60 })).await;
        }
        // The last one is the one that counts.
        std::fs::write(
            &file,
            format!("{stays}[backends.last]\n{}\n", fixture(&["odd"])),
        )
        .unwrap();
        gateway.until("last", "running").await;
        is_over.store(true, Ordering::Relaxed);
    };
    let (calls, ()) = tokio::join!(load, changes);
    assert!(calls > 100, "{calls}");
    assert_eq!(gateway.folder.pids("journal").len(), 1, "restarted");
    // Each of the two, and who ends it when the gateway is killed.
    eventually("the others to be gone", async || {
        let processes = super::real::descendants(gateway.pid());
        (processes.len() <= 4).then_some(())
    })
    .await;
    let status = gateway.own("gateway_status", json!({})).await;
    let backends: Vec<&String> = status["backends"].as_object().unwrap().keys().collect();
    assert_eq!(backends, ["last", "stays"]);
    let query = json!({"event_type": "gateway.config_changed", "status": "failure"});
    let refused = gateway.own("get_events", query).await;
    assert!(refused.to_string().contains("command"), "{refused}");
}

#[tokio::test]
async fn tools_come_and_go_with_their_backend() {
    let folder = Folder::new();
    let one = format!("[backends.one]\n{}\n", fixture(&["odd"]));
    let two = format!("[backends.two]\n{}\n", fixture(&["odd"]));
    let gateway = Gateway::start(folder, &one, &[]).await;
    for (config, tool, other) in [
        (&two, "two__work", "one__work"),
        (&one, "one__work", "two__work"),
    ] {
        gateway.folder.write("gateway.toml", config);
        eventually(tool, async || {
            let listed = gateway.result("tools/list", json!({})).await.to_string();
            (listed.contains(tool) && !listed.contains(other)).then_some(())
        })
        .await;
        let error = gateway
            .error("tools/call", json!({"name": other, "arguments": {}}))
            .await;
        assert_eq!(error["message"], format!("Tool not found: {other}"));
    }
}
