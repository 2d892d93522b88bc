//! When a backend is started: again after it fell, not too often, and when somebody asks for it.

use std::time::{Duration, Instant};

use serde_json::json;

use super::lab::{Folder, Gateway, fixture, text};
use crate::harness::eventually;

/// R8.
#[tokio::test]
async fn one_that_falls_at_once_is_tried_five_times_and_then_by_hand() {
    let folder = Folder::new();
    let (journal, tools) = (folder.path("journal"), folder.path("tools"));
    let args = ["odd", "--journal", &journal, "--tools", &tools, "exits"];
    let config = format!("[backends.b]\n{}\n", fixture(&args));
    let gateway = Gateway::start(folder, &config, &[]).await;
    let started = Instant::now();
    gateway.until("b", "failed").await;
    let failed = gateway.backend("b").await;
    assert!(
        failed["last_error"].is_string() && failed["next_try_s"].is_number(),
        "{failed}"
    );
    let cpu = cpu_ticks(gateway.pid());
    eventually("the crash loop", async || {
        // Seldom, since what the questions cost is measured too.
        tokio::time::sleep(Duration::from_secs(1)).await;
        (gateway.backend("b").await["status"] == "crash_loop").then_some(())
    })
    .await;
    let took = started.elapsed();
    let cpu = cpu_ticks(gateway.pid()) - cpu;
    // 2 % of one processor, what the questions of this test cost included.
    let most = took.as_millis() as u64 / 10 / 50;
    assert!(cpu < most, "{cpu} hundredths of a second in {took:?}");
    let starts = gateway.folder.starts("journal");
    // Each start is tried in the new way and, at once, in the old one.
    assert!((6..=12).contains(&starts.len()), "{starts:?}");
    let waits = starts.windows(2).map(|pair| pair[1] - pair[0]);
    let waits: Vec<Duration> = waits.filter(|wait| wait.as_millis() > 750).collect();
    assert_eq!(waits.len(), 5, "{starts:?}");
    for (n, waited) in waits.into_iter().enumerate() {
        let planned = Duration::from_secs(1 << n);
        assert!(waited >= planned.mul_f64(0.79), "{n}: {waited:?}");
        // A busy machine starts processes late.
        let late = Duration::from_secs(3);
        assert!(waited <= planned.mul_f64(1.2) + late, "{n}: {waited:?}");
    }
    // Real time, since nothing happens.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let later = gateway.folder.starts("journal").len();
    assert_eq!(later, starts.len(), "tried again");

    gateway.folder.write(
        "tools",
        r#"[{"name":"work","inputSchema":{"type":"object"}}]"#,
    );
    let restarted = gateway
        .own("gateway_restart", json!({"backend": "b"}))
        .await;
    assert_eq!(restarted["before"], "crash_loop");
    gateway.until("b", "running").await;
    eventually("its tools", async || {
        let answer = gateway.answer("b__work", json!({})).await;
        answer["result"]["content"].is_array().then_some(())
    })
    .await;
}

/// What a process has used of the processor, in hundredths of a second.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// R14.
#[tokio::test]
async fn a_hundred_first_calls_start_one_process() {
    let folder = Folder::new();
    let journal = folder.path("journal");
    let odd = fixture(&["odd", "--journal", &journal]);
    let config = format!("[backends.b]\n{odd}\nidle_timeout = \"300ms\"\n");
    let gateway = Gateway::start(folder, &config, &[]).await;
    for round in 0..3 {
        gateway.until("b", "stopped").await;
        eventually("it to end", async || {
            let pid = *gateway.folder.pids("journal").last()?;
            let is_gone = !std::path::Path::new(&format!("/proc/{pid}")).exists();
            is_gone.then_some(())
        })
        .await;
        let status = gateway.backend("b").await;
        assert_eq!(status["tool_count"], 1, "{status}");
        assert_eq!(status["restarts"], 0, "nothing fell: {status}");
        let before = gateway.folder.pids("journal").len();
        let calls = (0..100).map(|n| gateway.tool("b__work", json!({"n": n})));
        for result in futures_util::future::join_all(calls).await {
            assert_eq!(text(&result), "done", "{round}");
        }
        assert_eq!(gateway.folder.pids("journal").len(), before + 1);
    }
}
