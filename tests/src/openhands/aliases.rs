//! The six tools of the server that seed 001 describes.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    agent_server, assert_error, both_transports, call, call_with_id, client, server_with,
    wait_for_status,
};
use crate::harness::assert_contains;
use crate::harness::real::openhands;

#[tokio::test]
async fn agents_are_agent_profiles() {
    let Some(real) = openhands() else { return };
    for client in both_transports().await {
        let name = format!("agent-{}", Uuid::new_v4().simple());
        let file = format!("/etc/openhands/{name}.toml");
        let create = json!({"config_file": file, "instructions": "Be brief."});
        let created = call(&client, "create_agent", create.clone()).await;
        let expected = json!({"agent_id": name, "config_file": file, "api_available": true});
        assert_eq!(created, expected);
        assert_error(&client, "create_agent", create, "already").await;
        let found = call!(client, "get_agent", {"agent_id": name});
        assert_has!(found, {"agent_id": name, "config": {"instructions": "Be brief."}});
        let path = format!("/api/agent-profiles/{name}");
        let profile = agent_server(&real, "GET", &path, Value::Null).await;
        assert_eq!(profile["profile"]["system_message_suffix"], "Be brief.");
        assert_error!(client, "delete_agent", {"agent_id": name}, "Nothing was done yet");
        let deleted = call!(client, "delete_agent", {"agent_id": name, "confirm": name});
        assert_eq!(deleted["success"], true);
        assert_error!(client, "get_agent", {"agent_id": name}, "There is no agent profile");
    }
}

#[tokio::test]
async fn invalid_agent_names_are_refused() {
    let Some(client) = client().await else { return };
    let expected = "config_file must give a name";
    for bad in ["", "/", "..", "a b.toml", "x/../..", "ä.toml"] {
        assert_error!(client, "create_agent", {"config_file": bad}, expected);
    }
}

#[tokio::test]
async fn execute_task_does_not_wait() {
    for client in both_transports().await {
        let context = json!({"file": "in.txt", "content": "given", "ticket": 7});
        let started = call!(client, "execute_task", {"agent_id": "default",
            "task": "RUN: sleep 5; cat in.txt", "context": context});
        let status = started["status"].as_str();
        assert!(matches!(status, Some("running" | "queued")), "{started}");
        let id = &started["task_id"];
        wait_for_status(&client, id, "finished").await;
        let result = call_with_id(&client, "get_task_result", id).await;
        assert_eq!(result["last_output"], "given");
        let messages = call!(client, "get_task_events", {"task_id": id, "kinds": ["message"]});
        assert_contains(&messages.to_string(), "ticket");
    }
}

#[tokio::test]
async fn execute_task_needs_an_existing_agent() {
    let Some(client) = client().await else { return };
    let expected = "There is no agent profile \"unknown\"";
    assert_error!(client, "execute_task", {"agent_id": "unknown", "task": "SAY: x"}, expected);
}

#[tokio::test]
async fn execute_mcp_task_names_the_tool_in_the_prompt() {
    let Some(client) = client().await else { return };
    let started = call!(client, "execute_mcp_task", {"agent_id": "default", "task": "SAY: called",
        "server_name": "n8n", "function_name": "run_workflow", "parameters": {"workflow_id": "1"}});
    let id = &started["task_id"];
    wait_for_status(&client, id, "finished").await;
    let messages = call!(client, "get_task_events", {"task_id": id, "kinds": ["message"]});
    let messages = messages.to_string();
    assert_contains(&messages, "`run_workflow` of the MCP server `n8n`");
    assert_contains(&messages, "workflow_id");
}

#[tokio::test]
async fn execute_parallel_tasks_starts_all_tasks() {
    let Some(real) = openhands() else { return };
    let (_server, client) = server_with(&real, &[]).await;
    let started = call!(client, "execute_parallel_tasks", {"tasks": [
        {"type": "execute_task", "agent_id": "default", "task": "SAY: one"},
        {"type": "execute_mcp_task", "agent_id": "default", "task": "SAY: two",
            "server_name": "s", "function_name": "f"},
    ]});
    let runs = started["tasks"].as_array().unwrap();
    for (run, text) in runs.iter().zip(["one", "two"]) {
        wait_for_status(&client, &run["task_id"], "finished").await;
        let result = call_with_id(&client, "get_task_result", &run["task_id"]).await;
        assert_eq!(result["result"], text);
    }
    let task = json!({"type": "execute_mcp_task", "agent_id": "default", "task": "x"});
    assert_error!(client, "execute_parallel_tasks", {"tasks": [task]}, "server_name");
}
