//! Our three servers behind the gateway, with their real services.

use serde_json::{Value, json};

use super::super::env::{Folder, Gateway, failure, text};
use super::{child, kill_and_wait_for_restart};
use crate::harness::{Server, assert_contains, binary, eventually, member_texts, real};

/// One of our servers.
pub(super) struct OurServer {
    pub(super) name: &'static str,
    /// The address and the key of its service.
    pub(super) env: Vec<(&'static str, String)>,
    /// A tool that reads, and the member of its result that is a list.
    pub(super) list: (&'static str, &'static str),
    /// A call that fails.
    pub(super) failing: (&'static str, Value),
    /// The status with which the service answers it.
    pub(super) failing_status: &'static str,
}

/// The servers whose services are running.
pub(super) fn all() -> Vec<OurServer> {
    let unknown = "5f0c0000-0000-4000-8000-000000000000";
    let n8n = real::n8n().map(|n8n| OurServer {
        name: "n8n-mcp-server",
        env: vec![("N8N_URL", n8n.url), ("N8N_API_KEY", n8n.api_key)],
        list: ("list_workflows", "workflows"),
        failing: ("get_workflow", json!({"workflow_id": "no-such-workflow"})),
        failing_status: "404",
    });
    let openhands = real::openhands().map(|openhands| OurServer {
        name: "openhands-mcp-server",
        env: vec![
            ("OPENHANDS_URL", openhands.url),
            ("OPENHANDS_API_KEY", openhands.api_key),
        ],
        list: ("list_tasks", "tasks"),
        failing: ("get_task_status", json!({"task_id": unknown})),
        failing_status: "404",
    });
    let docker = real::docker().map(|host| OurServer {
        name: "docker-mcp-server",
        env: vec![("DOCKER_HOST", host)],
        list: ("list_containers", "containers"),
        failing: ("get_container", json!({"container": "no-such-container"})),
        failing_status: "404",
    });
    [n8n, openhands, docker].into_iter().flatten().collect()
}

impl OurServer {
    pub(super) fn env(&self) -> Vec<(&str, &str)> {
        let env = self.env.iter();
        env.map(|(name, value)| (*name, value.as_str())).collect()
    }
}

#[tokio::test]
async fn servers_work_as_children() {
    for ours in all() {
        let path = binary(ours.name).to_str().unwrap().to_owned();
        let env = ours.env.iter();
        let env: Vec<_> = env
            .map(|(name, value)| format!("{name} = {value:?}"))
            .collect();
        let env = env.join(", ");
        let argv = [path, "--stdio".to_owned()];
        let gateway = Gateway::with(&format!("{}\nenv = {{ {env} }}", child(&argv))).await;
        assert_works(&gateway, "b", &ours).await;
        kill_and_wait_for_restart(&gateway, &format!("{}\0--stdio", ours.name)).await;
        assert_works(&gateway, "b", &ours).await;
    }
}

#[tokio::test]
async fn servers_work_over_http_and_fail_alone() {
    let all = all();
    if all.is_empty() {
        return;
    }
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
        assert_works(&gateway, key, ours).await;
    }
    while let Some((key, server)) = servers.pop() {
        server.kill().await;
        let (tool, arguments) = &all[servers.len()].failing;
        let tool = format!("{key}__{tool}");
        let answer = gateway.answer(&tool, arguments.clone()).await;
        assert_contains(&failure(&answer), &format!("backend {key}"));
        for ((key, _), ours) in servers.iter().zip(&all) {
            assert_works(&gateway, key, ours).await;
        }
    }
}

async fn assert_works(gateway: &Gateway, key: &str, ours: &OurServer) {
    let (tool, member) = ours.list;
    // Repeated, since a busy service may be slow.
    eventually(tool, async || {
        let read = gateway.tool(&format!("{key}__{tool}"), json!({})).await;
        let read: Value = serde_json::from_str(text(&read)).ok()?;
        read[member].is_array().then_some(())
    })
    .await;
    let (tool, arguments) = &ours.failing;
    let tool = format!("{key}__{tool}");
    let answer = gateway.answer(&tool, arguments.clone()).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let prompts = gateway.result("prompts/list", json!({})).await;
    let own = format!("{key}__");
    let prompts = member_texts(&prompts["prompts"], "name");
    let has_own = prompts.iter().any(|name| name.starts_with(&own));
    assert!(has_own, "{prompts:?}");
    let templates = gateway.result("resources/templates/list", json!({})).await;
    let templates = templates["resourceTemplates"].as_array().unwrap();
    assert!(!templates.is_empty());
}
