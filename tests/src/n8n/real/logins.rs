//! URLs that ask for authentication.

use serde_json::{Value, json};

use super::super::site::{Site, echo, unique, webhook};
use super::super::{SERVER, refused};
use super::run;
use crate::harness::Server;

/// A webhook that asks for a credential, which it names.
async fn secured(site: &Site, scheme: &str, kind: &str, data: Value) -> (Value, String, String) {
    let name = unique("credential");
    let body = json!({"name": name, "type": kind, "data": data});
    let made = site.api("POST", "/credentials", Some(body)).await;
    let id = made["id"].as_str().unwrap().to_owned();
    let mut trigger = webhook("lastNode");
    trigger["parameters"]["authentication"] = json!(scheme);
    trigger["credentials"] = json!({kind: {"id": id, "name": name}});
    (trigger, id, name)
}

async fn runs_with_its_credential(scheme: &str, kind: &str, data: Value, wrong: Value) {
    let Some(site) = Site::new() else { return };
    let (trigger, id, name) = secured(&site, scheme, kind, data.clone()).await;
    let workflow = site.live(vec![trigger, echo()]).await;
    let env = site.env_without_mcp();
    let with = async |known: Value| {
        let known = known.to_string();
        let mut env = env.to_vec();
        env.push(("N8N_WEBHOOK_CREDENTIALS", &known));
        Server::start(SERVER, &env).await
    };
    // By name, and by id.
    for key in [&name, &id] {
        let server = with(json!({key: data})).await;
        let ran = run(&server.client().await, &workflow, json!({"input": "in"})).await;
        assert_eq!(ran["output"], json!({"result": "in"}), "{ran}");
        assert_eq!(ran["way"], "webhook");
        site.execution(&ran).await;
    }
    let arguments = json!({"workflow_id": workflow.id});
    let server = with(json!({&name: wrong})).await;
    let message = refused(&server.client().await, "run_workflow", arguments.clone()).await;
    assert!(message.contains("refused the request"), "{message}");
    let server = with(json!({})).await;
    let message = refused(&server.client().await, "run_workflow", arguments).await;
    assert!(message.contains("N8N_WEBHOOK_CREDENTIALS"), "{message}");
    assert!(message.contains(&name), "{message}");

    let list = format!("/executions?workflowId={}", workflow.id);
    let all = site.api("GET", &list, None).await;
    assert_eq!(all["data"].as_array().unwrap().len(), 2);
    site.delete(&workflow).await;
    site.api("DELETE", &format!("/credentials/{id}"), None)
        .await;
}

#[tokio::test]
async fn by_a_header() {
    let right = json!({"name": "X-Secret", "value": "s3cret"});
    let wrong = json!({"name": "X-Secret", "value": "other"});
    runs_with_its_credential("headerAuth", "httpHeaderAuth", right, wrong).await;
}

#[tokio::test]
async fn by_name_and_password() {
    let right = json!({"user": "u", "password": "p:ä"});
    let wrong = json!({"user": "u", "password": "other"});
    runs_with_its_credential("basicAuth", "httpBasicAuth", right, wrong).await;
}

#[tokio::test]
async fn what_is_configured_must_be_readable() {
    let Some(site) = Site::new() else { return };
    let mut env = site.env_without_mcp().to_vec();
    env.push(("N8N_WEBHOOK_CREDENTIALS", "{\"a\": \"SECRET\"}"));
    let server = Server::start(SERVER, &env).await;
    let workflow = site.draft(vec![webhook("lastNode")], json!({})).await;
    let message = refused!(server.client().await, "run_workflow", {"workflow_id": workflow.id});
    assert!(message.starts_with("N8N_WEBHOOK_CREDENTIALS"), "{message}");
    assert!(!message.contains("SECRET") && !server.log().contains("SECRET"));
    site.delete(&workflow).await;
}
