//! Our three servers behind the gateway, in front of their real services.

use serde_json::{Value, json};

use super::super::lab::{Folder, Gateway, failure, text};
use super::{child, kill_and_heal};
use crate::harness::{Server, binary, eventually, real};

/// A server of ours, what it needs to find its service, and a tool of each that only reads and one
/// that fails.
struct Ours {
    name: &'static str,
    env: Vec<(&'static str, String)>,
    reads: (&'static str, &'static str),
    fails: (&'static str, Value),
}

/// Those whose services are there.
fn all() -> Vec<Ours> {
    let nobody = "5f0c0000-0000-4000-8000-000000000000";
    let n8n = real::n8n().map(|n8n| Ours {
        name: "n8n-mcp-server",
        env: vec![("N8N_URL", n8n.url), ("N8N_API_KEY", n8n.api_key)],
        reads: ("list_workflows", "workflows"),
        fails: ("get_workflow", json!({"workflow": "no-such-workflow"})),
    });
    let openhands = real::openhands().map(|openhands| Ours {
        name: "openhands-mcp-server",
        env: vec![
            ("OPENHANDS_URL", openhands.url),
            ("OPENHANDS_API_KEY", openhands.api_key),
        ],
        reads: ("list_tasks", "tasks"),
        fails: ("get_task_status", json!({"task_id": nobody})),
    });
    let docker = real::docker().map(|host| Ours {
        name: "docker-mcp-server",
        env: vec![("DOCKER_HOST", host)],
        reads: ("list_containers", "containers"),
        fails: ("get_container", json!({"container": "no-such-container"})),
    });
    [n8n, openhands, docker].into_iter().flatten().collect()
}

impl Ours {
    fn env(&self) -> Vec<(&str, &str)> {
        let env = self.env.iter();
        env.map(|(name, value)| (*name, value.as_str())).collect()
    }
}

#[tokio::test]
async fn each_is_well_as_a_child() {
    for ours in all() {
        let path = binary(ours.name).to_str().unwrap().to_owned();
        let env = ours
            .env
            .iter()
            .map(|(name, value)| format!("{name} = {value:?}"));
        let env = env.collect::<Vec<_>>().join(", ");
        let argv = [path, "--stdio".to_owned()];
        let gateway = Gateway::with(&format!("{}\nenv = {{ {env} }}", child(&argv))).await;
        is_well(&gateway, "b", &ours).await;
        kill_and_heal(&gateway, &format!("{}\0--stdio", ours.name)).await;
        is_well(&gateway, "b", &ours).await;
    }
}

#[tokio::test]
async fn all_are_well_over_http_and_one_that_ends_is_missed_alone() {
    let all = all();
    let mut servers = Vec::new();
    let mut config = String::new();
    for ours in &all {
        let server = Server::start(ours.name, &ours.env()).await;
        let key = ours.name.strip_suffix("-mcp-server").unwrap();
        config += &format!("[backends.{key}]\nurl = {:?}\n", server.url);
        servers.push((key, server));
    }
    let gateway = Gateway::start(Folder::new(), &config, &[]).await;
    for ((key, _), ours) in servers.iter().zip(&all) {
        gateway.until(key, "running").await;
        is_well(&gateway, key, ours).await;
    }
    while let Some((key, server)) = servers.pop() {
        server.kill().await;
        let (tool, arguments) = &all[servers.len()].fails;
        let answer = gateway
            .answer(&format!("{key}__{tool}"), arguments.clone())
            .await;
        assert!(
            failure(&answer).contains(&format!("backend {key}")),
            "{answer}"
        );
        for ((key, _), ours) in servers.iter().zip(&all) {
            is_well(&gateway, key, ours).await;
        }
    }
}

async fn is_well(gateway: &Gateway, key: &str, ours: &Ours) {
    let (tool, member) = ours.reads;
    // A service that has much to do is slow at times.
    eventually(tool, async || {
        let read = gateway.tool(&format!("{key}__{tool}"), json!({})).await;
        let read: Value = serde_json::from_str(text(&read)).ok()?;
        read[member].is_array().then_some(())
    })
    .await;
    let (tool, arguments) = &ours.fails;
    let answer = gateway
        .answer(&format!("{key}__{tool}"), arguments.clone())
        .await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let prompts = gateway.result("prompts/list", json!({})).await;
    let own = format!("{key}__");
    let prompts = prompts["prompts"].as_array().unwrap().iter();
    assert!(
        prompts
            .clone()
            .any(|prompt| prompt["name"].as_str().unwrap().starts_with(&own)),
        "{prompts:?}"
    );
    let templates = gateway.result("resources/templates/list", json!({})).await;
    assert!(
        !templates["resourceTemplates"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}
