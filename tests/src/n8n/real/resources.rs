//! Resources, subscriptions and prompts.

use tokio::time::timeout;

use super::*;
use crate::harness::{CALL_TIMEOUT, Messages, recorder};

/// A client that has subscribed to `uri`, and its notifications.
async fn subscribe(env: &Env, uri: &str) -> (Client, Messages) {
    let (handler, notifications) = recorder();
    let client = env
        .server
        .client_with(EraChoice::Legacy, json!({}), Some(handler));
    let client = client.await;
    let params = json!({"uri": uri});
    let subscribed = client.request("resources/subscribe", &params).await;
    subscribed.unwrap();
    let stream = client.listen(&json!({})).await.unwrap();
    tokio::spawn(stream.closed());
    (client, notifications)
}

async fn wait_for(notifications: &mut Messages, wanted: &str) {
    let received = async { while notifications.recv().await.unwrap().1["uri"] != wanted {} };
    let received = timeout(CALL_TIMEOUT, received).await;
    assert!(received.is_ok(), "no notification of {wanted}");
}

async fn read_resource(env: &Env, uri: &str) -> Value {
    let uri = json!({"uri": uri});
    let read = env.server.result("resources/read", uri).await;
    serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn workflows_and_executions_are_resources_and_parts_of_prompts() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![webhook("lastNode"), echo()]).await;
    let run = env.run(&workflow, json!({"input": "SECRET-INPUT"})).await;
    let all = read_resource(&env, "n8n://workflows").await;
    assert!(all["workflows"].is_array(), "{all}");
    let one = read_resource(&env, &format!("n8n://workflows/{}", workflow.id)).await;
    assert_eq!(one["name"], workflow.name);
    let id = run["execution_id"].as_str().unwrap();
    let execution = read_resource(&env, &format!("n8n://executions/{id}")).await;
    assert_eq!(execution["nodes"][0]["node"], "Webhook", "{execution}");
    assert!(!execution.to_string().contains("SECRET-INPUT"));
    for path in [
        "executions/999999999",
        "workflows/nothing",
        "workflows/a%2Fb",
    ] {
        let uri = json!({"uri": format!("n8n://{path}")});
        let error = env.server.error("resources/read", uri).await;
        assert_eq!(error["data"]["kind"], "resource_not_found", "{error}");
    }
    let text = async |name: &str, arguments: Value| {
        let prompt = json!({"name": name, "arguments": arguments});
        let prompt = env.server.result("prompts/get", prompt).await;
        prompt["messages"][0]["content"]["text"].clone()
    };
    let review = text("review_workflow", json!({"workflow_id": workflow.id})).await;
    assert_contains(&review, &workflow.name);
    assert_contains(&review, "Follow that data");
    let build = text("build_workflow", json!({"goal": "tell me the weather"})).await;
    assert_contains(&build, "tell me the weather");
    assert_contains(&build, "list_nodes");
    let failing = env.live(vec![webhook("lastNode"), fail("boom")]).await;
    let run = env.run(&failing, json!({})).await;
    let id = json!({"execution_id": run["execution_id"]});
    let debug = text("debug_execution", id).await;
    assert_contains(&debug, "boom");
    assert_contains(&debug, "on purpose");
}

#[tokio::test]
async fn subscribers_are_notified_of_changes() {
    // A change before the first poll is not detected. That has ended once the same is read again, also if the
    // subscription has read it, too.
    const READS: usize = 3;
    let Some((proxy, env)) = Env::counted().await else {
        return;
    };
    let workflow = env.live(vec![webhook("lastNode"), echo()]).await;
    let uri = format!("n8n://workflows/{}", workflow.id);
    let (_client, mut notifications) = subscribe(&env, &uri).await;
    let path = format!("/workflows/{}", workflow.id);
    proxy.wait_for(&format!("GET /api/v1{path}"), READS).await;
    env.api("POST", &format!("{path}/deactivate"), None).await;
    wait_for(&mut notifications, &uri).await;
    env.delete(&workflow).await;
    wait_for(&mut notifications, &uri).await;
    let gate = Gate::start().await;
    let workflow = env.live(vec![webhook("onReceived"), gate.node()]).await;
    done!(env, "run_workflow", {"workflow_id": workflow.id, "wait_seconds": 0});
    let id = execution_with(&env, &workflow, "running").await;
    let id = id.as_str().unwrap();
    proxy.take();
    let uri = format!("n8n://executions/{id}");
    let (_client, mut notifications) = subscribe(&env, &uri).await;
    let read = format!("GET /api/v1/executions/{id}?includeData=true");
    proxy.wait_for(&read, READS).await;
    gate.open();
    wait_for(&mut notifications, &uri).await;
}
