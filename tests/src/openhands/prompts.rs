//! The prompts, over HTTP and stdio.

use mcp_client::Client;
use serde_json::{Value, json};

use super::{both_transports, run_task};
use crate::harness::assert_contains;

async fn get(client: &Client, name: &str, arguments: Value) -> String {
    let params = json!({"name": name, "arguments": arguments});
    let result = client.request("prompts/get", &params).await.unwrap();
    let result: Value = serde_json::from_str(result.get()).unwrap();
    let message = &result["messages"][0];
    assert_eq!(message["role"], "user");
    message["content"]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn review_prompt_holds_the_arguments_of_run_task() {
    for client in both_transports().await {
        let listed = client.list("prompts/list", "prompts").await.unwrap();
        assert_eq!(listed.len(), 1);
        let code = json!({"repository": "https://example.com/shop.git", "branch": "dev"});
        let context = r#"`{"repository":"https://example.com/shop.git","branch":"dev"}`"#;
        let text = get(&client, "review_change", code).await;
        assert_contains(&text, context);
        for arguments in [
            json!({}),
            json!({"repository": "file:///etc"}),
            json!({"task_id": "../settings"}),
        ] {
            let params = json!({"name": "review_change", "arguments": arguments});
            assert!(client.request("prompts/get", &params).await.is_err());
        }
    }
}

#[tokio::test]
async fn review_prompt_holds_the_diff_of_the_task() {
    for client in both_transports().await {
        let task = "RUN: echo price=3 > shop.txt\nFINISH: the price is 3 now";
        let run = run_task(&client, task).await;
        let text = get(&client, "review_change", json!({"task_id": run["task_id"]})).await;
        for expected in ["+price=3", "the price is 3 now", "RUN: echo", "shop.txt"] {
            assert_contains(&text, expected);
        }
        let id = run["task_id"].as_str().unwrap();
        let params = json!({
            "ref": {"type": "ref/prompt", "name": "review_change"},
            "argument": {"name": "task_id", "value": &id[..12]},
        });
        let completed = client.request("completion/complete", &params).await;
        assert_contains(completed.unwrap().get(), id);
    }
}
