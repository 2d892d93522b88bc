//! Starts of a backend: with a backoff after failures, and for a call after an idle timeout.

use std::time::{Duration, Instant};

use serde_json::json;

use super::env::{Folder, Gateway, misbehaving, text, tools_json};
use crate::harness::{eventually, wait_until};

/// R8.
#[tokio::test]
async fn crash_loop_ends_after_five_tries_until_gateway_restart() {
    let folder = Folder::new();
    let (journal, tools) = (folder.path("journal"), folder.path("tools"));
    let child = misbehaving(&["--journal", &journal, "--tools", &tools, "exits"]);
    let gateway = Gateway::start(folder, &format!("[backends.b]\n{child}\n"), &[]).await;
    let started = Instant::now();
    let failed = eventually("b to be failed", async || {
        let backend = gateway.backend("b").await;
        (backend["status"] == "failed").then_some(backend)
    })
    .await;
    assert!(failed["last_error"].is_string(), "{failed}");
    assert!(failed["next_try_s"].is_number(), "{failed}");
    let cpu = cpu_ticks(gateway.pid());
    wait_until("the crash loop", async || {
        // Once a second, since the CPU time of these requests counts too.
        tokio::time::sleep(Duration::from_secs(1)).await;
        gateway.backend("b").await["status"] == "crash_loop"
    })
    .await;
    let took = started.elapsed();
    let cpu = cpu_ticks(gateway.pid()) - cpu;
    // 2 % of one processor, with the requests of this test.
    let max_cpu = took.as_millis() as u64 / 10 / 50;
    assert!(cpu < max_cpu, "{cpu} hundredths of a second in {took:?}");
    let starts = gateway.folder.starts("journal");
    // Each try starts it in the newest era and immediately again in the legacy era.
    assert!((6..=12).contains(&starts.len()), "{starts:?}");
    let waits = starts.windows(2).map(|pair| pair[1] - pair[0]);
    let waits: Vec<Duration> = waits.filter(|wait| wait.as_millis() > 750).collect();
    assert_eq!(waits.len(), 5, "{starts:?}");
    for (n, waited) in waits.into_iter().enumerate() {
        let planned = Duration::from_secs(1 << n);
        assert!(waited >= planned.mul_f64(0.79), "{n}: {waited:?}");
        // A busy machine starts processes late.
        let late = Duration::from_secs(40);
        assert!(waited <= planned.mul_f64(1.2) + late, "{n}: {waited:?}");
    }
    // Real time, to see that nothing happens.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let later = gateway.folder.starts("journal").len();
    assert_eq!(later, starts.len(), "started again");

    gateway.folder.write("tools", &tools_json(&["work"]));
    assert_eq!(gateway.restart().await["before"], "crash_loop");
    gateway.until("b", "running").await;
    wait_until("its tools", async || {
        let answer = gateway.answer("b__work", json!({})).await;
        answer["result"]["content"].is_array()
    })
    .await;
}

/// Returns the CPU time of a process, in hundredths of a second.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let ticks = fields
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().unwrap());
    ticks.sum()
}

/// R14.
#[tokio::test]
async fn hundred_calls_start_an_idle_backend_once() {
    let folder = Folder::new();
    let journal = folder.path("journal");
    let child = misbehaving(&["--journal", &journal]);
    let config = format!("[backends.b]\n{child}\nidle_timeout = \"1s\"\n");
    let gateway = Gateway::start(folder, &config, &[]).await;
    for round in 0..3 {
        gateway.until("b", "stopped").await;
        eventually("the process to exit", async || {
            let pid = *gateway.folder.pids("journal").last()?;
            let is_gone = !std::path::Path::new(&format!("/proc/{pid}")).exists();
            is_gone.then_some(())
        })
        .await;
        let status = gateway.backend("b").await;
        assert_eq!(status["tool_count"], 1, "{status}");
        assert_eq!(status["restarts"], 0, "no failure: {status}");
        let before = gateway.folder.pids("journal").len();
        let calls = (0..100).map(|n| gateway.tool("b__work", json!({"n": n})));
        for result in futures_util::future::join_all(calls).await {
            assert_eq!(text(&result), "done", "{round}");
        }
        assert_eq!(gateway.folder.pids("journal").len(), before + 1);
    }
}
