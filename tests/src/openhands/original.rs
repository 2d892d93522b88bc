//! The six tools of the server that seed 001 describes.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{NAME, both, call, child, direct, env, refusal, until};
use crate::harness::{Server, real};

fn agent() -> String {
    format!("agent-{}", Uuid::new_v4().simple())
}

#[tokio::test]
async fn create_get_and_delete_agent_are_a_profile() {
    let Some(real) = real::openhands() else {
        return;
    };
    let Some(both) = both().await else { return };
    for client in both.clients {
        let name = agent();
        let file = format!("/etc/openhands/{name}.toml");
        let create = json!({"config_file": file, "instructions": "Be brief."});
        let created = call(&client, "create_agent", create.clone()).await;
        let expected = json!({"agent_id": name, "config_file": file, "api_available": true});
        assert_eq!(created, expected);
        let twice = refusal(&client, "create_agent", create).await;
        assert!(twice.contains("already"), "{twice}");
        let found = call(&client, "get_agent", json!({"agent_id": name})).await;
        assert_eq!(
            (&found["agent_id"], &found["config"]["instructions"]),
            (&json!(name), &json!("Be brief."))
        );
        let path = format!("/api/agent-profiles/{name}");
        let profile = direct(&real, "GET", &path, Value::Null).await;
        assert_eq!(profile["profile"]["system_message_suffix"], "Be brief.");
        let unasked = refusal(&client, "delete_agent", json!({"agent_id": name})).await;
        assert!(unasked.contains("Nothing was done yet"), "{unasked}");
        let delete = json!({"agent_id": name, "confirm": name});
        let deleted = call(&client, "delete_agent", delete).await;
        assert_eq!(deleted["success"], true);
        let gone = refusal(&client, "get_agent", json!({"agent_id": name})).await;
        assert!(gone.contains("There is no agent profile"), "{gone}");
    }
}

#[tokio::test]
async fn names_of_agents_are_names() {
    let Some(client) = child().await else { return };
    for bad in ["", "/", "..", "a b.toml", "x/../..", "ä.toml"] {
        let refused = refusal(&client, "create_agent", json!({"config_file": bad})).await;
        assert!(
            refused.contains("config_file must give a name"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn execute_task_starts_and_does_not_wait() {
    let Some(both) = both().await else { return };
    for client in both.clients {
        let context = json!({"file": "in.txt", "content": "given", "ticket": 7});
        let task = json!({"agent_id": "default", "task": "RUN: sleep 1; cat in.txt",
            "context": context});
        let started = call(&client, "execute_task", task).await;
        assert!(
            matches!(started["status"].as_str(), Some("running" | "queued")),
            "{started}"
        );
        let id = &started["task_id"];
        until(&client, id, "finished").await;
        let result = call(&client, "get_task_result", json!({"task_id": id})).await;
        assert_eq!(result["last_output"], "given");
        let said = json!({"task_id": id, "kinds": ["message"]});
        let said = call(&client, "get_task_events", said).await.to_string();
        assert!(said.contains("ticket"), "{said}");
    }
}

#[tokio::test]
async fn execute_task_needs_an_agent_that_exists() {
    let Some(client) = child().await else { return };
    let task = json!({"agent_id": "nobody", "task": "SAY: x"});
    let refused = refusal(&client, "execute_task", task).await;
    assert!(
        refused.contains("There is no agent profile \"nobody\""),
        "{refused}"
    );
}

#[tokio::test]
async fn execute_mcp_task_tells_the_agent_which_tool() {
    let Some(client) = child().await else { return };
    let task = json!({"agent_id": "default", "task": "SAY: called", "server_name": "n8n",
        "function_name": "run_workflow", "parameters": {"workflow_id": "1"}});
    let started = call(&client, "execute_mcp_task", task).await;
    let id = &started["task_id"];
    until(&client, id, "finished").await;
    let said = json!({"task_id": id, "kinds": ["message"]});
    let said = call(&client, "get_task_events", said).await.to_string();
    assert!(
        said.contains("`run_workflow` of the MCP server `n8n`") && said.contains("workflow_id"),
        "{said}"
    );
}

#[tokio::test]
async fn execute_parallel_tasks_starts_them_all() {
    let Some(real) = real::openhands() else {
        return;
    };
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
        let result = json!({"task_id": run["task_id"]});
        let result = call(&client, "get_task_result", result).await;
        assert_eq!(result["result"], text);
    }
    let tasks =
        json!({"tasks": [{"type": "execute_mcp_task", "agent_id": "default", "task": "x"}]});
    let refused = refusal(&client, "execute_parallel_tasks", tasks).await;
    assert!(refused.contains("server_name"), "{refused}");
}
