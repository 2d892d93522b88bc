//! Children that die, hang, flood or babble, and what that does to the others: nothing.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::lab::{Folder, Gateway, failure, fixture, text};
use crate::harness::{assert_contains, eventually};

/// A gateway with the odd child as `b`, which keeps its journal in `journal`, and with the fixture as
/// `good`.
async fn beside_a_good_one(manner: &[&str], more: &str) -> Gateway {
    let folder = Folder::new();
    let journal = folder.path("journal");
    let mut args = vec!["odd", "--journal", &journal];
    args.extend(manner);
    let config = format!(
        "[backends.b]\n{}\n{more}\n[backends.good]\n{}\n",
        fixture(&args),
        fixture(&["--stdio"])
    );
    let gateway = Gateway::start(folder, &config, &[]).await;
    gateway.until("good", "running").await;
    gateway
}

async fn good_is_well(gateway: &Gateway) {
    let result = gateway.tool("good__greet", json!({"name": "Ada"})).await;
    assert_eq!(text(&result), "Hello, Ada!");
}

fn end(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}

/// Processes that nobody has waited for, among the children of `parent`.
fn zombies(parent: u32) -> usize {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children = children.unwrap_or_default();
    let is_zombie = |pid: &&str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains(") Z ")
    };
    children.split_whitespace().filter(is_zombie).count()
}

/// R7.
#[tokio::test]
async fn a_killed_child_fails_its_calls_and_comes_back() {
    let limits = "timeout = \"60s\"\nmax_in_flight = 100";
    let gateway = beside_a_good_one(&["hangs"], limits).await;
    gateway.until("b", "running").await;
    // As many as it is given at a time, and others that wait for their turn.
    let calls = (0..100).map(|n| gateway.answer("b__work", json!({"n": n, "hang": true})));
    let calls = futures_util::future::join_all(calls);
    let killed = async {
        eventually("all calls to arrive", async || {
            (gateway.folder.count("journal", "\"tools/call\"") == 100).then_some(())
        })
        .await;
        let waiting = (0..36).map(|n| gateway.tool("b__work", json!({"wait": n})));
        let waiting = futures_util::future::join_all(waiting);
        let end = async {
            good_is_well(&gateway).await;
            end(gateway.folder.pids("journal")[0]);
            let killed = Instant::now();
            good_is_well(&gateway).await;
            killed
        };
        let (waited, killed) = tokio::join!(waiting, end);
        for result in waited {
            assert_eq!(text(&result), "done");
        }
        (killed, killed.elapsed())
    };
    let calls = async { (calls.await, Instant::now()) };
    let ((answers, answered), (killed, healed)) = tokio::join!(calls, killed);
    // 1 s and 3 s, on a machine of its own.
    assert!(answered - killed < Duration::from_secs(5));
    assert!(healed < Duration::from_secs(15), "{healed:?}");
    for answer in answers {
        assert!(failure(&answer).contains("backend b"), "{answer}");
    }
    let result = gateway.tool("b__work", json!({})).await;
    assert_eq!(text(&result), "done");
    for (what, count) in [("\"hang\":true", 100), ("\"wait\":", 36)] {
        let sent = gateway.folder.count("journal", what);
        assert_eq!(sent, count, "{what} was sent again");
    }
    assert_eq!(gateway.folder.pids("journal").len(), 2);
    assert_eq!(zombies(gateway.pid()), 0);
    let status = gateway.backend("b").await;
    assert_eq!(status["restarts"], 1, "{status}");
    good_is_well(&gateway).await;
}

/// R9.
#[tokio::test]
async fn one_that_never_answers_is_given_up_and_told_so() {
    let gateway = beside_a_good_one(&["hangs"], "timeout = \"1s\"").await;
    gateway.until("b", "running").await;
    // Twice as many as may be under way, so that places are seen to be given back.
    for _ in 0..2 {
        let started = Instant::now();
        let calls = (0..64).map(|_| gateway.answer("b__work", json!({"hang": true})));
        for answer in futures_util::future::join_all(calls).await {
            assert!(
                failure(&answer).contains("did not answer within 1 s"),
                "{answer}"
            );
        }
        let took = started.elapsed();
        assert!((1..5).contains(&took.as_secs()), "{took:?}");
    }
    eventually("the child to be told", async || {
        (gateway.folder.count("journal", "notifications/cancelled") == 128).then_some(())
    })
    .await;
    assert_eq!(text(&gateway.tool("b__work", json!({})).await), "done");
    good_is_well(&gateway).await;
}

/// R9: progress is no answer.
#[tokio::test]
async fn progress_does_not_make_patience_endless() {
    let gateway = Gateway::with(&format!("{}\ntimeout = \"1s\"", fixture(&["--stdio"]))).await;
    let params = json!({"name": "b__slow", "arguments": {"step": 100, "steps": 1000}, "_meta": {"progressToken": 1}});
    let started = Instant::now();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let reply = gateway.post(body.to_string()).await;
    assert_contains(&reply.body, "did not answer within 1 s");
    assert!(started.elapsed() < Duration::from_secs(5));
}

/// R10.
#[tokio::test]
async fn one_that_hangs_when_it_starts_holds_up_nothing() {
    let started = Instant::now();
    let gateway = beside_a_good_one(&["silent"], "start_timeout = \"3s\"").await;
    let listed = gateway.result("tools/list", json!({})).await;
    assert!(listed.to_string().contains("good__greet"));
    good_is_well(&gateway).await;
    gateway.until("b", "failed").await;
    assert!(started.elapsed() < Duration::from_secs(20));
    let status = gateway.backend("b").await;
    assert_contains(&status["last_error"], "did not answer");
    // The old way was tried too.
    assert!(gateway.folder.count("journal", "server/discover") >= 1);
    assert!(gateway.folder.count("journal", "\"initialize\"") >= 1);
    assert!(gateway.folder.pids("journal").len() <= 2, "one at a time");
}

/// R10: silence at what is new is no end.
#[tokio::test]
async fn one_that_is_deaf_to_the_new_era_is_met_in_the_old_one() {
    let gateway = beside_a_good_one(&["deaf-to-new"], "").await;
    gateway.until("b", "running").await;
    assert_eq!(gateway.backend("b").await["protocol"], "2025-06-18");
}

/// R11.
#[tokio::test]
async fn one_that_does_not_read_makes_callers_wait_only_so_long() {
    let gateway = beside_a_good_one(&["full"], "timeout = \"20s\"").await;
    gateway.until("b", "running").await;
    // What as many connections and bodies take anyway.
    let filler = "x".repeat(10_000);
    let calls = (0..150).map(|_| gateway.tool("good__echo", json!({"value": filler})));
    futures_util::future::join_all(calls).await;
    let memory = gateway.memory_kib();
    let started = Instant::now();
    let calls = (0..150).map(|n| {
        let call = gateway.answer("b__work", json!({"n": n, "filler": filler}));
        async { (call.await, started.elapsed()) }
    });
    let calls = futures_util::future::join_all(calls);
    let others = async {
        for _ in 0..20 {
            good_is_well(&gateway).await;
        }
        started.elapsed()
    };
    let (answers, others) = tokio::join!(calls, others);
    assert!(others < Duration::from_secs(5), "{others:?}");
    let busy = answers.iter().filter(|(answer, took)| {
        failure(answer).contains("busy") && *took < Duration::from_secs(9)
    });
    let busy = busy.count();
    assert!(busy >= 80, "{busy} of 150 were told that it is busy");
    let grown = gateway.memory_kib().saturating_sub(memory);
    assert!(grown < 8 << 10, "{grown} KiB more");
}

/// R12.
#[tokio::test]
async fn a_line_without_end_ends_the_child_and_nothing_else() {
    let gateway = beside_a_good_one(&["long-line"], "").await;
    gateway.until("b", "running").await;
    let memory = gateway.memory_kib();
    let answer = gateway.answer("b__work", json!({})).await;
    assert!(failure(&answer).contains("backend b"), "{answer}");
    good_is_well(&gateway).await;
    let grown = gateway.memory_kib().saturating_sub(memory);
    assert!(grown < 32 << 10, "{grown} KiB more");
    gateway.until("b", "running").await;
    assert_eq!(
        gateway.folder.count("journal", "\"tools/call\""),
        1,
        "sent again"
    );
}

/// R12.
#[tokio::test]
async fn a_flood_on_stderr_holds_up_no_answer() {
    let gateway = beside_a_good_one(&["floods"], "").await;
    gateway.until("b", "running").await;
    let memory = gateway.memory_kib();
    assert_eq!(text(&gateway.tool("b__work", json!({})).await), "done");
    let grown = gateway.memory_kib().saturating_sub(memory);
    assert!(grown < 32 << 10, "{grown} KiB more");
    assert!(gateway.log().len() < 1 << 20, "the flood is in our log");
}

/// R12, R13.
#[tokio::test]
async fn what_is_no_answer_is_nobodys_answer() {
    for manner in ["banner", "strays"] {
        let gateway = beside_a_good_one(&[manner], "").await;
        gateway.until("b", "running").await;
        let calls = (0..20).map(|n| gateway.tool("b__work", json!({"n": n})));
        for result in futures_util::future::join_all(calls).await {
            assert_eq!(text(&result), "done", "{manner}");
        }
        let processes = gateway.folder.pids("journal").len();
        assert_eq!(processes, 1, "{manner}: restarted");
        let status = gateway.backend("b").await;
        // Five strays with each answer, and one for each answer before.
        let (strays, noise) = match manner {
            "banner" => (0, 2),
            _ => (100, 0),
        };
        assert!(
            status["stray_answers"].as_u64().unwrap() >= strays,
            "{status}"
        );
        assert!(status["noise"].as_u64().unwrap() >= noise, "{status}");
        let metrics = gateway.request("GET", "/metrics", &[]).await.body;
        let counted = &status["stray_answers"];
        let line = format!("mcp_gateway_backend_stray_answers_total{{backend=\"b\"}} {counted}");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

/// R16: only the way to a backend counts, not what it says.
#[tokio::test]
async fn errors_of_tools_open_no_circuit() {
    let gateway = Gateway::before_fixture().await;
    for _ in 0..12 {
        let answer = gateway.answer("b__test_error_handling", json!({})).await;
        assert!(failure(&answer).contains("intentionally"), "{answer}");
    }
    assert_eq!(gateway.backend("b").await["status"], "running");
}

/// R22.
#[tokio::test]
async fn children_die_with_a_gateway_that_is_killed() {
    let folder = Folder::new();
    let (journal, events) = (folder.path("journal"), folder.path("events.db"));
    let config = format!(
        "[backends.b]\n{}\n",
        fixture(&["odd", "--journal", &journal, "hangs"])
    );
    let gateway = Gateway::start(folder, &config, &["--events", &events]).await;
    gateway.until("b", "running").await;
    gateway.tool("b__work", json!({})).await;
    gateway.ends(1).await;
    let pid = gateway.folder.pids("journal")[0];
    let Gateway { server, folder } = gateway;
    server.kill().await;
    let killed = Instant::now();
    eventually("the child to end", async || {
        let is_gone = kill(Pid::from_raw(pid), None).is_err();
        is_gone.then_some(())
    })
    .await;
    assert!(
        killed.elapsed() < Duration::from_secs(4),
        "{:?}",
        killed.elapsed()
    );
    let again = Gateway::start(folder, &config, &["--events", &events]).await;
    again.until("b", "running").await;
    let calls = again.ends(1).await;
    assert_eq!(calls[0]["tool_name"], "b__work", "of the time before");
    let status = again.own("gateway_status", json!({})).await;
    assert_eq!(status["event_log"]["status"], "ok", "{status}");
}
