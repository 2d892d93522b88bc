//! `isolation`: callers with a child process or an upstream session of their own.

use mcp_client::EraChoice;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::env::{Folder, Gateway, tokens};
use super::questions::{Person, asking};
use super::stdio_bridge::StdioBridge;
use crate::harness::{assert_contains, wait_until};

/// A gateway in front of a child that asks, with or without the tokens of two principals. Their clients send them anyway.
struct Isolated {
    gateway: Gateway,
    bridge: Option<StdioBridge>,
}

impl Isolated {
    async fn start(settings: &str, over_http: bool, tokens: bool) -> Self {
        let folder = Folder::new();
        let (target, bridge) = asking(&folder, over_http).await;
        let config = format!("[backends.b]\n{target}\n{settings}\n");
        let file = folder.write("tokens", &self::tokens(&["alice", "bob"]));
        let args = ["--token-file", file.as_str()];
        let args = if tokens { &args[..] } else { &[] };
        let gateway = Gateway::start(folder, &config, args).await;
        // It may have stopped as idle before it is seen to run.
        gateway.until_sees("bob", "b__work").await;
        Self { gateway, bridge }
    }

    async fn connect(&self, name: &'static str, era: EraChoice) -> Person {
        Person::connect(&self.gateway, era, name).await
    }

    /// The backend in `gateway_status`.
    async fn status(&self) -> Value {
        let status = self.gateway.own_by("bob", "gateway_status", json!({}));
        status.await["backends"]["b"].clone()
    }

    async fn wait_for_instances(&self, count: usize) {
        wait_until(&format!("{count} instances"), async || {
            self.status().await["instances"] == count
        })
        .await;
        // The gateway's own, for the lists, is one more.
        wait_until(&format!("{count} processes or sessions"), async || {
            let running = match &self.bridge {
                Some(bridge) => bridge.sessions(),
                None => self.gateway.folder.running("journal"),
            };
            running == count + 1
        })
        .await;
    }
}

/// Calls `work` without getting an answer, until the task is aborted.
async fn hold(isolated: &Isolated, person: Person) -> tokio::task::JoinHandle<()> {
    let folder = &isolated.gateway.folder;
    let before = folder.count("journal", "hold");
    let task = tokio::spawn(async move { drop(person.call(json!({"hold": true})).await) });
    folder.until_counts("journal", "hold", before + 1).await;
    task
}

#[tokio::test]
async fn each_caller_is_asked_its_own_questions() {
    for (isolation, tokens, era) in [
        ("principal", true, EraChoice::Newest),
        ("principal", true, EraChoice::Legacy),
        ("principal", false, EraChoice::Legacy),
        ("session", true, EraChoice::Newest),
        ("session", false, EraChoice::Legacy),
        // With tokens nobody shares a process by default.
        ("", true, EraChoice::Newest),
        ("", true, EraChoice::Legacy),
    ] {
        for over_http in [false, true] {
            let settings = match isolation {
                "" => String::new(),
                isolation => format!("isolation = {isolation:?}"),
            };
            let isolated = Isolated::start(&settings, over_http, tokens).await;
            let (alice, bob) =
                tokio::join!(isolated.connect("alice", era), isolated.connect("bob", era));
            // Calls of both that are in progress and that were left. By sessions, two clients without one are
            // not taken for one because of their token.
            let mut calls = Vec::new();
            let is_certain = isolation == "principal" || era == EraChoice::Legacy;
            if is_certain && !isolation.is_empty() {
                for name in ["alice", "bob"] {
                    calls.push(hold(&isolated, isolated.connect(name, era).await).await);
                }
                calls[0].abort();
            }
            tokio::join!(alice.assert_is_asked("A?"), bob.assert_is_asked("B?"));
            let status = isolated.status().await;
            assert_eq!(status["refused_questions"], Value::Null, "{status}");
            // Each connection of the legacy era is a session.
            let is_session = era == EraChoice::Legacy && (isolation == "session" || !tokens);
            let count = if is_session { 4 } else { 2 };
            isolated.wait_for_instances(count).await;
        }
    }
}

#[tokio::test]
async fn instances_end_with_their_session_or_token_or_when_idle() {
    for over_http in [false, true] {
        let isolated = Isolated::start("isolation = \"session\"", over_http, false).await;
        let alice = isolated.connect("alice", EraChoice::Legacy).await;
        alice.assert_is_asked("A?").await;
        isolated.wait_for_instances(1).await;
        alice.close().await;
        isolated.wait_for_instances(0).await;

        let settings = "isolation = \"principal\"";
        let isolated = Isolated::start(settings, over_http, true).await;
        let alice = isolated.connect("alice", EraChoice::Newest).await;
        alice.assert_is_asked("A?").await;
        isolated.wait_for_instances(1).await;
        let folder = &isolated.gateway.folder;
        folder.write("tokens", &tokens(&["bob"]));
        isolated.wait_for_instances(0).await;

        let settings = "isolation = \"session\"\nidle_timeout = \"300ms\"";
        let isolated = Isolated::start(settings, over_http, false).await;
        let alice = isolated.connect("alice", EraChoice::Legacy).await;
        for _ in 0..2 {
            alice.assert_is_asked("A?").await;
            wait_until("no instance", async || {
                isolated.status().await["instances"] == 0
            })
            .await;
        }
    }
}

#[tokio::test]
async fn instances_are_limited() {
    let settings = "isolation = \"session\"\nmax_instances = 1";
    let isolated = Isolated::start(settings, false, false).await;
    for name in ["alice", "bob"] {
        // The one that is not used makes room.
        let person = isolated.connect(name, EraChoice::Legacy).await;
        person.assert_is_asked("Yes?").await;
        isolated.wait_for_instances(1).await;
    }
    let alice = isolated.connect("alice", EraChoice::Legacy).await;
    let held = hold(&isolated, alice).await;
    let bob = isolated.connect("bob", EraChoice::Legacy).await;
    let (text, _) = bob.call(json!({"ask": "Yes?"})).await;
    assert_contains(&text, "`max_instances`");
    held.abort();
    wait_until("room", async || {
        bob.call(json!({"ask": "Yes?"})).await.0.contains("bob")
    })
    .await;
}

#[tokio::test]
async fn instances_end_with_a_restart_or_a_change_of_their_backend() {
    for over_http in [false, true] {
        let isolated = Isolated::start("isolation = \"session\"", over_http, false).await;
        let alice = isolated.connect("alice", EraChoice::Legacy).await;
        alice.assert_is_asked("A?").await;
        isolated.wait_for_instances(1).await;
        isolated.gateway.restart().await;
        isolated.wait_for_instances(0).await;
        alice.assert_is_asked("Again?").await;
        isolated.wait_for_instances(1).await;
        let config = isolated.gateway.configuration();
        let changed = format!("{config}timeout = \"59s\"\n");
        isolated.gateway.configure(&changed);
        isolated.wait_for_instances(0).await;
    }
}

#[tokio::test]
async fn own_process_that_died_counts_as_restarted() {
    let isolated = Isolated::start("isolation = \"principal\"", false, true).await;
    let alice = isolated.connect("alice", EraChoice::Newest).await;
    for restarts in 0..3 {
        alice.assert_is_asked("A?").await;
        assert_eq!(isolated.status().await["restarts"], restarts);
        let pids = isolated.gateway.folder.pids("journal");
        kill(Pid::from_raw(*pids.last().unwrap()), Signal::SIGKILL).unwrap();
        isolated.wait_for_instances(0).await;
    }
    assert_eq!(isolated.status().await["restarts"], 3);
}
