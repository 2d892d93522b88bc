//! Cost, tokens and models of tasks.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    NAME, add_agent, agent_server, assert_error, call, call_with_id, client_with, conversation,
    env_with, remove_agent, run_task,
};
use crate::harness::Server;
use crate::harness::real::openhands;

#[tokio::test]
async fn task_runs_with_the_model_that_its_caller_names() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[]).await;
    let listed = call!(client, "list_agent_profiles", {});
    let default = agent_server(&real, "GET", "/api/settings", Value::Null).await;
    let llm = &default["agent_settings"]["llm"];
    let name = format!("model-{}", Uuid::new_v4().simple());
    let llm = json!({"model": "openai/other-model", "base_url": llm["base_url"],
        "api_key": "not-a-key", "num_retries": 0});
    add_agent(&real, &name, llm).await;
    assert!(!listed.to_string().contains(&name));
    let listed = call!(client, "list_agent_profiles", {});
    let models = listed["models"].as_array().unwrap();
    let added = models.iter().find(|model| model["name"] == *name).unwrap();
    assert_eq!(added["model"], "openai/other-model");
    assert!(!listed.to_string().contains("not-a-key"));
    let run = call!(client, "run_task", {"task": "RUN: echo chosen", "model": name,
        "wait_seconds": 25});
    assert_has!(run, {"status": "finished", "last_output": "chosen"});
    assert_eq!(run["model"], "openai/other-model", "{run}");
    assert!(run["tokens"].is_u64(), "{run}");
    assert_error!(client, "run_task", {"task": "FINISH: x", "model": "no-such"}, &name);
    remove_agent(&real, &name).await;
}

#[tokio::test]
async fn seconds_are_those_of_the_runs() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[]).await;
    let run = call!(client, "run_task", {"task": "RUN: sleep 3", "verify": "true",
        "wait_seconds": 25});
    assert_eq!(run["verified"], true, "{run}");
    let id = &run["task_id"];
    let seconds = async || call_with_id(&client, "get_task_status", id).await["seconds"].as_u64();
    let first = seconds().await.unwrap();
    assert!((3..20).contains(&first), "{run}");
    // Tags that are written later change the time of the last event.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut tags = conversation(&real, id).await["tags"].clone();
    tags["team"] = json!("a");
    let path = format!("/api/conversations/{}", id.as_str().unwrap());
    agent_server(&real, "PATCH", &path, json!({"tags": tags})).await;
    assert_eq!(seconds().await, Some(first));
    let more = call!(client, "send_message", {"task_id": id, "message": "RUN: sleep 2"});
    assert_eq!(more["status"], "finished", "{more}");
    let both = more["seconds"].as_u64().unwrap();
    assert!((first + 2..first + 15).contains(&both), "{first}, {more}");
}

#[tokio::test]
async fn usage_is_summed_by_day_principal_and_profile() {
    let Some(real) = openhands() else { return };
    let tokens = std::env::temp_dir().join(format!("mcp-tokens-{}", Uuid::new_v4()));
    let name = format!("alice-{}", Uuid::new_v4().simple());
    std::fs::write(
        &tokens,
        format!("{name} token-of-alice-16-chars\nbob token-of-bob-16-chars\n"),
    )
    .unwrap();
    let env = env_with(&real, &[("MCP_TOKEN_FILE", tokens.to_str().unwrap())]);
    let server = Server::start(NAME, &env).await;
    std::fs::remove_file(tokens).unwrap();
    let alice = server.client_with_token("token-of-alice-16-chars").await;
    let mut spent = 0;
    for _ in 0..2 {
        let run = run_task(&alice, "RUN: echo counted").await;
        assert!(run["seconds"].is_u64() && run["model"].is_string(), "{run}");
        spent += run["tokens"].as_u64().unwrap();
    }
    let usage = call!(alice, "get_usage", {"days": 1});
    let own = &usage["by_principal"][&name];
    assert_eq!(
        (&own["tasks"], &own["tokens"]),
        (&json!(2), &json!(spent)),
        "{usage}"
    );
    for sums in ["by_day", "by_profile"] {
        let sums = usage[sums].as_object().unwrap().values();
        let tasks: u64 = sums.map(|sum| sum["tasks"].as_u64().unwrap()).sum();
        assert_eq!(json!(tasks), usage["total"]["tasks"], "{usage}");
    }
    assert!(usage["not_counted"].is_array());
    let bob = server.client_with_token("token-of-bob-16-chars").await;
    let usage = call!(bob, "get_usage", {});
    assert!(usage["by_principal"][&name].is_null(), "{usage}");
}
