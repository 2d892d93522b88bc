//! Starts of a backend: with a backoff after failures, and for a call after an idle timeout.

use std::time::Duration;

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
    let failed = eventually("b to be failed", async || {
        let backend = gateway.backend("b").await;
        (backend["status"] == "failed").then_some(backend)
    })
    .await;
    assert!(failed["last_error"].is_string(), "{failed}");
    assert!(failed["next_try_s"].is_number(), "{failed}");
    let before = cpu_ticks(gateway.pid());
    wait_until("the crash loop", async || {
        // Once a second, since the CPU time of these requests counts too.
        tokio::time::sleep(Duration::from_secs(1)).await;
        gateway.backend("b").await["status"] == "crash_loop"
    })
    .await;
    // Without its waits it would take most of the 25 s. Half a second on an idle machine, with the requests of this test.
    let cpu = cpu_ticks(gateway.pid()) - before;
    assert!(cpu < 500, "{cpu} hundredths of a second");
    let starts = gateway.folder.starts("journal");
    // Each try starts it in the newest era and immediately again in the legacy era.
    assert!((6..=12).contains(&starts.len()), "{starts:?}");
    gateway
        .wait_for_log("no more tries until gateway_restart")
        .await;
    let log = gateway.log();
    let waits = log.split("next try in ").skip(1).map(|rest| {
        let (seconds, _) = rest.split_once(" s").unwrap();
        seconds.parse::<f64>().unwrap()
    });
    let waits: Vec<f64> = waits.collect();
    assert_eq!(waits.len(), 5, "{waits:?}");
    for (n, wait) in waits.iter().enumerate() {
        let planned = f64::from(1 << n);
        assert!(
            (planned * 0.79..=planned * 1.21).contains(wait),
            "{waits:?}"
        );
    }
    // It has waited so long, but for what the log has rounded.
    let waited = *starts.last().unwrap() - starts[0];
    let planned: f64 = waits.iter().sum();
    assert!(waited.as_secs_f64() > planned - 0.5, "{waited:?} {waits:?}");
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
    // All have a place at once, and come within the time after which it would be stopped again.
    let limits = "idle_timeout = \"3s\"\nmax_in_flight = 100";
    let config = format!("[backends.b]\n{child}\n{limits}\n");
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
