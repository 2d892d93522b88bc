//! The six tools of the server that seed 001 describes.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{NAME, both, call, client, direct, env, on, refuses, until};
use crate::harness::real::openhands;
use crate::harness::{Server, assert_contains};

fn agent() -> String {
    format!("agent-{}", Uuid::new_v4().simple())
}

#[tokio::test]
async fn create_get_and_delete_agent_are_a_profile() {
    let Some(real) = openhands() else { return };
    for client in both().await {
        let name = agent();
        let file = format!("/etc/openhands/{name}.toml");
        let create = json!({"config_file": file, "instructions": "Be brief."});
        let created = call(&client, "create_agent", create.clone()).await;
        let expected = json!({"agent_id": name, "config_file": file, "api_available": true});
        assert_eq!(created, expected);
        refuses(&client, "create_agent", create, "already").await;
        let found = call(&client, "get_agent", json!({"agent_id": name})).await;
        assert_has!(found, {"agent_id": name, "config": {"instructions": "Be brief."}});
        let path = format!("/api/agent-profiles/{name}");
        let profile = direct(&real, "GET", &path, Value::Null).await;
        assert_eq!(profile["profile"]["system_message_suffix"], "Be brief.");
        refuses(
            &client,
            "delete_agent",
            json!({"agent_id": name}),
            "Nothing was done yet",
        )
        .await;
        let deleted = call!(client, "delete_agent", {"agent_id": name, "confirm": name});
        assert_eq!(deleted["success"], true);
        refuses(
            &client,
            "get_agent",
            json!({"agent_id": name}),
            "There is no agent profile",
        )
        .await;
    }
}

#[tokio::test]
async fn names_of_agents_are_names() {
    let Some(client) = client().await else { return };
    for bad in ["", "/", "..", "a b.toml", "x/../..", "ä.toml"] {
        refuses(
            &client,
            "create_agent",
            json!({"config_file": bad}),
            "config_file must give a name",
        )
        .await;
    }
}

#[tokio::test]
async fn execute_task_starts_and_does_not_wait() {
    for client in both().await {
        let context = json!({"file": "in.txt", "content": "given", "ticket": 7});
        let started = call!(client, "execute_task", {"agent_id": "default",
            "task": "RUN: sleep 1; cat in.txt", "context": context});
        assert!(
            matches!(started["status"].as_str(), Some("running" | "queued")),
            "{started}"
        );
        let id = &started["task_id"];
        until(&client, id, "finished").await;
        let result = on(&client, "get_task_result", id).await;
        assert_eq!(result["last_output"], "given");
        let said = json!({"task_id": id, "kinds": ["message"]});
        let said = call(&client, "get_task_events", said).await.to_string();
        assert!(said.contains("ticket"), "{said}");
    }
}

#[tokio::test]
async fn execute_task_needs_an_agent_that_exists() {
    let Some(client) = client().await else { return };
    let task = json!({"agent_id": "nobody", "task": "SAY: x"});
    refuses(
        &client,
        "execute_task",
        task,
        "There is no agent profile \"nobody\"",
    )
    .await;
}

#[tokio::test]
async fn execute_mcp_task_tells_the_agent_which_tool() {
    let Some(client) = client().await else { return };
    let started = call!(client, "execute_mcp_task", {"agent_id": "default", "task": "SAY: called",
        "server_name": "n8n", "function_name": "run_workflow", "parameters": {"workflow_id": "1"}});
    let id = &started["task_id"];
    until(&client, id, "finished").await;
    let said = json!({"task_id": id, "kinds": ["message"]});
    let said = call(&client, "get_task_events", said).await.to_string();
    assert_contains(&said, "`run_workflow` of the MCP server `n8n`");
    assert_contains(&said, "workflow_id");
}

#[tokio::test]
async fn execute_parallel_tasks_starts_them_all() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let client = server.client().await;
    let tasks = json!({"tasks": [
        {"type": "execute_task", "agent_id": "default", "task": "SAY: one"},
        {"type": "execute_mcp_task", "agent_id": "default", "task": "SAY: two",
            "server_name": "s", "function_name": "f"},
    ]});
    let started = call(&client, "execute_parallel_tasks", tasks).await;
    for (run, text) in started["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .zip(["one", "two"])
    {
        until(&client, &run["task_id"], "finished").await;
        let result = on(&client, "get_task_result", &run["task_id"]).await;
        assert_eq!(result["result"], text);
    }
    let tasks =
        json!({"tasks": [{"type": "execute_mcp_task", "agent_id": "default", "task": "x"}]});
    refuses(&client, "execute_parallel_tasks", tasks, "server_name").await;
}
