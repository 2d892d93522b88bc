//! Real servers behind the gateway: third-party servers from npm and on the SDKs for Python and Rust,
//! and our three with their services. Skipped if they are not installed.

mod everything;
mod filesystem;
mod names;
mod our_servers;
mod sdks;
mod traces;

use std::path::Path;
use std::process::Stdio;

use mcp_client::{Client, ClientInfo, Command, EraChoice, Options};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc;

use super::env::Gateway;
use crate::harness::{client_builder, wait_until};

/// A line of the configuration: a child with this command.
fn child(argv: &[String]) -> String {
    format!("command = {}", json!(argv))
}

/// Starts a server without a gateway, and connects to it.
async fn direct(argv: &[String]) -> Client {
    let command = Command::new(&argv[0]).args(&argv[1..]);
    let client = client_builder().stdio(command).unwrap();
    let capabilities = json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}});
    let info = ClientInfo::new("tests", "1").with_capabilities(capabilities);
    client.connect(&info).await.unwrap();
    client
}

/// Reads a list, sorted by its ids.
async fn list(client: &Client, method: &str, member: &str, id: &str) -> Vec<Value> {
    let items = client.list(method, member).await.unwrap();
    let items = items.iter().map(|item| serde_json::from_str(item.get()));
    let mut items: Vec<Value> = items.map(Result::unwrap).collect();
    items.sort_by_key(|item| item[id].to_string());
    items
}

/// Asserts that the gateway lists all items of the backend unchanged, except for the names.
async fn assert_same_lists(gateway: &Gateway, direct: &Client) {
    for era in [EraChoice::Newest, EraChoice::Legacy] {
        let client = gateway.client(era, None).await;
        for (method, member, id) in [
            ("tools/list", "tools", "name"),
            ("prompts/list", "prompts", "name"),
            ("resources/list", "resources", "uri"),
            (
                "resources/templates/list",
                "resourceTemplates",
                "uriTemplate",
            ),
        ] {
            let capability = format!("{:?}", method.split('/').next().unwrap());
            let server = direct.server().unwrap();
            if !server.capabilities.get().contains(&capability) {
                continue;
            }
            let mut expected = list(direct, method, member, id).await;
            if id == "name" {
                for item in &mut expected {
                    item["name"] = format!("b__{}", item["name"].as_str().unwrap()).into();
                }
            }
            let mut found = list(&client, method, member, id).await;
            found.retain(|item| id != "name" || item["name"].as_str().unwrap().starts_with("b__"));
            for item in expected.iter_mut().chain(&mut found) {
                // Depends on the capabilities of the client, not on the backend.
                item.as_object_mut().unwrap().remove("execution");
            }
            assert_eq!(found, expected, "{era:?} {method}");
        }
    }
}

/// Starts a server over HTTP and waits for a line on stderr that contains `ready`. Returns that line.
async fn spawn_http(argv: &[String], args: &[&str], port: u16, ready: &str) -> (Child, String) {
    let mut server = tokio::process::Command::new(&argv[0])
        .args(&argv[1..])
        .args(args)
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let line = loop {
        let line = lines.next_line().await.unwrap().expect("it listens");
        if line.contains(ready) {
            break line;
        }
    };
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (server, line)
}

/// Calls a tool and cancels the call after its first progress notification.
async fn cancel_after_progress(client: &Client, name: &str, arguments: Value) {
    let (reports, mut received) = mpsc::channel(16);
    let call = json!({"name": name, "arguments": arguments});
    let options = Options::default().progress(reports);
    tokio::select! {
        result = client.request_with("tools/call", &call, options) => panic!("{result:?}"),
        report = received.recv() => assert!(report.unwrap().progress >= 1.0),
    }
}

/// Kills the process of `b` whose command ends with `last`, and waits until it is restarted.
async fn kill_and_wait_for_restart(gateway: &Gateway, last: &str) {
    let before = gateway.backend("b").await["restarts"].clone();
    let pid = descendant(gateway.pid(), last).expect("it runs");
    kill(Pid::from_raw(pid.try_into().unwrap()), Signal::SIGKILL).unwrap();
    wait_until("the restart", async || {
        let status = gateway.backend("b").await;
        status["restarts"] != before && status["status"] == "running"
    })
    .await;
    let new = descendant(gateway.pid(), last).expect("it runs again");
    assert_ne!(new, pid);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "a zombie");
}

/// Returns the last process below `parent` whose command ends with `last`.
fn descendant(parent: u32, last: &str) -> Option<u32> {
    let is_it = |pid: &u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        command.trim_end_matches('\0').ends_with(last)
    };
    descendants(parent).into_iter().rfind(is_it)
}

/// Returns all processes below `parent`, parents before their children.
pub(super) fn descendants(parent: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task"));
    let mut found = Vec::new();
    for task in tasks.into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(task.path().join("children"));
        for child in children.unwrap_or_default().split_whitespace() {
            let child = child.parse().unwrap();
            found.push(child);
            found.extend(descendants(child));
        }
    }
    found
}
