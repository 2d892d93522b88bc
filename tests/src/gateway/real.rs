//! Servers that people put behind a gateway: those of others from npm, on the SDKs for Python and
//! Rust, and our three in front of their services. Skipped where they are not installed.

mod everything;
mod filesystem;
mod ours;
mod sdks;

use std::path::Path;

use mcp_client::{Client, ClientInfo, Command, EraChoice, Options};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::lab::{Gateway, PATIENCE};
use crate::harness::eventually;

/// A child with this command, as a line of the configuration.
fn child(argv: &[String]) -> String {
    format!("command = {}", json!(argv))
}

/// What the backend says without a gateway before it.
async fn direct(argv: &[String]) -> Client {
    let command = Command::new(&argv[0]).args(&argv[1..]);
    let client = Client::builder().timeout(PATIENCE).stdio(command).unwrap();
    let abilities = json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}});
    let who = ClientInfo::new("tests", "1").with_capabilities(abilities);
    client.connect(&who).await.unwrap();
    client
}

/// A list as JSON, in the order of its ids.
async fn list(client: &Client, method: &str, member: &str, id: &str) -> Vec<Value> {
    let items = client.list(method, member).await.unwrap();
    let items = items.iter().map(|item| serde_json::from_str(item.get()));
    let mut items: Vec<Value> = items.map(Result::unwrap).collect();
    items.sort_by_key(|item| item[id].to_string());
    items
}

/// Asserts that whatever the backend lists is offered as it is, but for the name.
async fn offers_all_of(gateway: &Gateway, direct: &Client) {
    for dialect in [EraChoice::Newest, EraChoice::Legacy] {
        let client = gateway.client(dialect, None).await;
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
            let capability = method.split('/').next().unwrap();
            let server = direct.server().unwrap();
            if !server
                .capabilities
                .get()
                .contains(&format!("{capability:?}"))
            {
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
                // Every tool can be a task or cannot, as the gateway and its client agree on it.
                item.as_object_mut().unwrap().remove("execution");
            }
            assert_eq!(found, expected, "{dialect:?} {method}");
        }
    }
}

/// Calls a tool and gives it up once it has reported progress.
async fn give_up(client: &Client, name: &str, arguments: Value) {
    let (reports, mut seen) = mpsc::channel(16);
    let call = json!({"name": name, "arguments": arguments});
    let options = Options::default().progress(reports);
    tokio::select! {
        result = client.request_with("tools/call", &call, options) => panic!("{result:?}"),
        report = seen.recv() => assert!(report.unwrap().progress >= 1.0),
    }
}

/// Kills the process of `b` whose command ends with `last`, and waits until there is another one.
async fn kill_and_heal(gateway: &Gateway, last: &str) {
    let pid = descendant(gateway.pid(), last).expect("it runs");
    kill(Pid::from_raw(pid.try_into().unwrap()), Signal::SIGKILL).unwrap();
    eventually("it to come back", async || {
        let status = gateway.backend("b").await;
        (status["restarts"] == 1 && status["status"] == "running").then_some(())
    })
    .await;
    let new = descendant(gateway.pid(), last).expect("it runs again");
    assert_ne!(new, pid);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "a zombie");
}

/// The process below `parent` whose last argument ends with `last`; who keeps it has the same one.
fn descendant(parent: u32, last: &str) -> Option<u32> {
    let read = |pid: u32, file: &str| {
        let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    };
    let is_it = |pid: &u32| {
        let command = read(*pid, "cmdline");
        command.trim_end_matches('\0').ends_with(last)
    };
    descendants(parent).into_iter().rfind(is_it)
}

/// All processes below `parent`, each before those below it.
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
