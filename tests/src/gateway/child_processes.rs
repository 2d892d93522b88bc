//! Child processes that exit, hang, flood or violate the protocol. The other backends are not affected.

use futures_util::future::join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::env::{Folder, Gateway, failure, misbehaving, text};
use super::real::descendants;
use crate::harness::{assert_contains, eventually, rpc, wait_until};

/// Starts a gateway with two backends: `b`, which misbehaves in this way and writes the file `journal`,
/// and `good`, which is the fixture. Waits until `good` runs. Calls have no other timeout than that of a backend.
async fn with_starting(misbehavior: &str, more: &str) -> Gateway {
    let folder = Folder::new();
    let child = misbehaving(&["--journal", &folder.path("journal"), misbehavior]);
    let config = format!("[backends.b]\n{child}\n{more}\n[backends.good]\nFIXTURE\n");
    let gateway = Gateway::start(folder, &config, &["--call-timeout", "600"]).await;
    gateway.until("good", "running").await;
    gateway
}

/// The same; waits until both run.
async fn with_misbehaving(misbehavior: &str, more: &str) -> Gateway {
    let gateway = with_starting(misbehavior, more).await;
    gateway.until("b", "running").await;
    gateway
}

/// Asserts that the memory of the gateway is at most `max_mib` above `before`.
fn assert_memory(gateway: &Gateway, before: u64, max_mib: u64) {
    let grown = gateway.memory_kib().saturating_sub(before);
    assert!(grown < max_mib << 10, "{grown} KiB more");
}

/// True if a process below `parent` is a zombie.
fn has_zombies(parent: u32) -> bool {
    let stat = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat"));
    let mut stats = descendants(parent).into_iter().map(stat);
    stats.any(|stat| stat.unwrap_or_default().contains(") Z "))
}

/// R7.
#[tokio::test]
async fn calls_of_a_killed_child_fail_and_it_is_restarted() {
    let limits = "timeout = \"600s\"\nmax_in_flight = 100";
    let gateway = with_misbehaving("hangs", limits).await;
    // As many calls as are allowed at a time, and more that wait.
    let calls = (0..100).map(|n| gateway.answer("b__work", json!({"n": n, "hang": true})));
    let killed = async {
        let folder = &gateway.folder;
        folder.until_counts("journal", "\"tools/call\"", 100).await;
        // They wait 5 s for a place and 10 s for the start, which a busy machine may exceed: nothing is sent then.
        let waiting = (0..36).map(async |n| {
            eventually("an answer", async || {
                let told = gateway
                    .answer("b__work", json!({"wait": n}))
                    .await
                    .to_string();
                let reasons = ["is busy", "is down", "cannot be reached"];
                let is_unsent = reasons.iter().any(|reason| told.contains(reason));
                assert!(is_unsent || told.contains("done"), "{told}");
                (!is_unsent).then_some(())
            })
            .await;
        });
        let kill = async {
            gateway.assert_answers("good").await;
            let pid = Pid::from_raw(gateway.folder.pids("journal")[0]);
            kill(pid, Signal::SIGKILL).unwrap();
            gateway.assert_answers("good").await;
        };
        tokio::join!(join_all(waiting), kill);
    };
    let (answers, ()) = tokio::join!(join_all(calls), killed);
    for answer in answers {
        let broke = "The connection to the backend b broke before its answer";
        assert_contains(&failure(&answer), broke);
    }
    let result = gateway.tool("b__work", json!({})).await;
    assert_eq!(text(&result), "done");
    for (what, count) in [("\"hang\":true", 100), ("\"wait\":", 36)] {
        let sent = gateway.folder.count("journal", what);
        assert_eq!(sent, count, "{what} was sent again");
    }
    assert_eq!(gateway.folder.pids("journal").len(), 2);
    // The shell beside the killed child ends a little later.
    wait_until("no zombies", async || !has_zombies(gateway.pid())).await;
    let status = gateway.backend("b").await;
    assert_eq!(status["restarts"], 1, "{status}");
    gateway.assert_answers("good").await;
}

/// R9.
#[tokio::test]
async fn call_without_answer_times_out_and_is_cancelled() {
    let gateway = with_misbehaving("hangs", "timeout = \"1s\"").await;
    assert_eq!(gateway.backend("b").await["timeout_s"], 1.0);
    let good = gateway.backend("good").await;
    assert_eq!(good["timeout_s"], json!(null), "{good}");
    // Twice as many as are allowed at a time, to see that a timeout frees the place.
    for _ in 0..2 {
        let calls = (0..64).map(|_| gateway.answer("b__work", json!({"hang": true})));
        for answer in join_all(calls).await {
            let text = failure(&answer);
            assert_contains(&text, "did not answer within 1 s");
        }
    }
    // On a busy machine some time out before they are sent: the child is told of those that it got.
    wait_until("the cancellations", async || {
        let count = |part: &str| gateway.folder.count("journal", part);
        let got = count("\"method\":\"tools/call\"");
        got > 0 && count("notifications/cancelled") == got
    })
    .await;
    // Repeated, since a busy machine may need more than a second for a call.
    wait_until("it works", async || {
        let answer = gateway.answer("b__work", json!({})).await;
        answer["result"]["content"][0]["text"] == "done"
    })
    .await;
    gateway.assert_answers("good").await;
}

/// R9.
#[tokio::test]
async fn progress_does_not_extend_the_timeout() {
    let gateway = Gateway::with("FIXTURE\ntimeout = \"1s\"").await;
    let params = json!({"name": "b__slow", "arguments": {"step": 100, "steps": 1000}, "_meta": {"progressToken": 1}});
    let reply = gateway.post(rpc("tools/call", params).to_string()).await;
    assert_contains(&reply.body, "did not answer within 1 s");
}

/// R10.
#[tokio::test]
async fn backend_that_hangs_at_its_start_delays_nothing() {
    let gateway = with_starting("silent", "start_timeout = \"3s\"").await;
    assert!(gateway.lists("good__greet").await);
    gateway.assert_answers("good").await;
    gateway.until("b", "failed").await;
    let status = gateway.backend("b").await;
    assert_contains(&status["last_error"], "did not answer");
    // The legacy handshake is tried too. A busy machine may need several starts until the child has read both.
    wait_until("both handshakes", async || {
        assert!(gateway.folder.running("journal") <= 1, "one at a time");
        let count = |part: &str| gateway.folder.count("journal", part);
        count("server/discover") >= 1 && count("\"initialize\"") >= 1
    })
    .await;
}

/// R11.
#[tokio::test]
async fn backend_that_does_not_read_makes_callers_wait_a_limited_time() {
    let gateway = with_misbehaving("full", "timeout = \"20s\"").await;
    // The memory that so many connections and bodies take anyway.
    let filler = "x".repeat(10_000);
    let calls = (0..150).map(|_| gateway.tool("good__echo", json!({"value": filler})));
    join_all(calls).await;
    let memory = gateway.memory_kib();
    let calls = (0..150).map(|n| gateway.answer("b__work", json!({"n": n, "filler": filler})));
    let others = async {
        for _ in 0..20 {
            gateway.assert_answers("good").await;
        }
    };
    let (answers, ()) = tokio::join!(join_all(calls), others);
    // After 5 s, and not at the timeout.
    let busy = answers
        .iter()
        .filter(|answer| failure(answer).contains("busy"));
    let busy = busy.count();
    assert!(busy >= 80, "{busy} of 150 were rejected as busy");
    assert_memory(&gateway, memory, 8);
}

/// R12.
#[tokio::test]
async fn too_long_line_ends_only_the_child() {
    let gateway = with_misbehaving("long-line", "").await;
    let memory = gateway.memory_kib();
    gateway.backend_failure("b__work", json!({})).await;
    gateway.assert_answers("good").await;
    assert_memory(&gateway, memory, 32);
    gateway.until("b", "running").await;
    let calls = gateway.folder.count("journal", "\"tools/call\"");
    assert_eq!(calls, 1, "sent again");
}

/// R12.
#[tokio::test]
async fn flood_on_stderr_delays_no_answer_and_tool_errors_open_no_circuit() {
    let gateway = with_misbehaving("floods", "").await;
    let memory = gateway.memory_kib();
    assert_eq!(text(&gateway.tool("b__work", json!({})).await), "done");
    assert_memory(&gateway, memory, 32);
    let logged = gateway.log().len();
    assert!(logged < 1 << 20, "the flood is in the gateway's log");
    // R16: errors of tools, here of the other backend, do not open its circuit breaker.
    for _ in 0..12 {
        let answer = gateway.answer("good__test_error_handling", json!({})).await;
        assert!(failure(&answer).contains("intentionally"), "{answer}");
    }
    assert_eq!(gateway.backend("good").await["status"], "running");
}

/// R12, R13.
#[tokio::test]
async fn invalid_and_unmatched_messages_are_ignored() {
    for (manner, min_strays, min_noise) in [("banner", 0, 2), ("strays", 100, 0)] {
        let gateway = with_misbehaving(manner, "").await;
        let calls = (0..20).map(|n| gateway.tool("b__work", json!({"n": n})));
        for result in join_all(calls).await {
            assert_eq!(text(&result), "done", "{manner}");
        }
        let processes = gateway.folder.pids("journal").len();
        assert_eq!(processes, 1, "{manner}: restarted");
        let status = gateway.backend("b").await;
        // Five unmatched responses come with each answer.
        let strays = &status["stray_answers"];
        assert!(strays.as_u64().unwrap() >= min_strays, "{status}");
        assert!(status["noise"].as_u64().unwrap() >= min_noise, "{status}");
        let line = format!("mcp_gateway_backend_stray_answers_total{{backend=\"b\"}} {strays}");
        assert_contains(&gateway.metrics().await, &line);
    }
}

/// R22: also one that has stopped to read.
#[tokio::test]
async fn children_exit_when_the_gateway_is_killed() {
    for manner in ["hangs", "full"] {
        let folder = Folder::new();
        let (journal, events) = (folder.path("journal"), folder.path("events.db"));
        let child = misbehaving(&["--journal", &journal, manner]);
        let config = format!("[backends.b]\n{child}\ntimeout = \"1s\"\n");
        let gateway = Gateway::start(folder, &config, &["--events", &events]).await;
        gateway.until("b", "running").await;
        gateway.answer("b__work", json!({})).await;
        gateway.ends(1).await;
        let pid = gateway.folder.pids("journal")[0];
        let Gateway { server, folder } = gateway;
        server.kill().await;
        wait_until("the child to exit", async || {
            kill(Pid::from_raw(pid), None).is_err()
        })
        .await;
        let again = Gateway::start(folder, &config, &["--events", &events]).await;
        again.until("b", "running").await;
        let calls = again.ends(1).await;
        assert_eq!(calls[0]["tool_name"], "b__work", "recorded before the kill");
        let status = again.status().await;
        assert_eq!(status["event_log"]["status"], "ok", "{status}");
    }
}
