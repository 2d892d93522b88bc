//! What is found in workflows without running them.

use serde_json::{Value, json};

use super::super::site::{Site, echo, unique, webhook};
use super::super::{SERVER, done, refused};
use crate::harness::{Server, assert_contains};

/// The findings of a workflow with these nodes, all of them after the first.
async fn findings(site: &Site, nodes: &Value) -> Value {
    let server = Server::with_args(SERVER, &["--toolsets", "authoring"], &site.env()).await;
    let client = server.client().await;
    let all = nodes.as_array().unwrap();
    let targets: Vec<_> = all[1..]
        .iter()
        .map(|node| json!({"node": node["name"], "type": "main", "index": 0}))
        .collect();
    let connections = json!({all[0]["name"].as_str().unwrap(): {"main": [targets]}});
    let workflow = json!({"name": "V", "nodes": nodes, "connections": connections});
    done(
        &client,
        "validate_workflow",
        json!({ "workflow": workflow }),
    )
    .await
}

#[track_caller]
fn finds(found: &Value, severity: &str, node: &str, part: &str) {
    let all = found["findings"].as_array().unwrap();
    let hit = all.iter().any(|one| {
        let message = one["message"].as_str().unwrap();
        one["severity"] == severity && one["node"] == node && message.contains(part)
    });
    assert!(hit, "{found:#}");
}

fn node(name: &str, kind: &str, version: f64, parameters: Value) -> Value {
    json!({"name": name, "type": kind, "typeVersion": version, "parameters": parameters})
}

#[tokio::test]
async fn what_runs_is_valid() {
    let Some(site) = Site::new() else { return };
    let server = Server::with_args(SERVER, &["--toolsets", "authoring"], &site.env()).await;
    let client = server.client().await;
    let workflow = site.live(vec![webhook("lastNode"), echo()]).await;
    let arguments = json!({"workflow_id": workflow.id});
    let found = done(&client, "validate_workflow", arguments).await;
    assert_has!(found, {"valid": true, "findings": []});
    assert_eq!(
        found["unchecked"].is_null(),
        !site.is_old().await,
        "{found}"
    );
    let both = json!({"workflow_id": workflow.id, "workflow": {}});
    for arguments in [json!({}), both] {
        let message = refused(&client, "validate_workflow", arguments).await;
        assert!(message.contains("either"), "{message}");
    }
    site.delete(&workflow).await;
}

#[tokio::test]
async fn faults_of_structure_and_expressions() {
    let Some(site) = Site::new() else { return };
    let set = |name: &str, value: &str| node(name, "n8n-nodes-base.set", 3.4, json!({"x": value}));
    let nodes = json!([
        webhook("lastNode"),
        set("A", "={{ $('Nope').item }}"),
        set("B", "={{ $json.a"),
        set("C", "{{ $json.a }}"),
        node(
            "D",
            "n8n-nodes-base.code",
            2.0,
            json!({"jsCode": "return []"})
        ),
    ]);
    let found = findings(&site, &nodes).await;
    assert_eq!(found["valid"], false);
    finds(&found, "error", "A", "\"Nope\"");
    finds(&found, "error", "B", "without");
    finds(&found, "warning", "C", "does not start with");
    finds(&found, "warning", "D", "runs code");
    let alone = findings(&site, &json!([set("A", "x")])).await;
    assert!(alone.to_string().contains("No trigger"), "{alone}");
}

#[tokio::test]
async fn nodes_are_known_to_this_n8n() {
    let Some(site) = Site::new() else { return };
    let nodes = json!([
        webhook("lastNode"),
        node("A", "n8n-nodes-base.madeUp", 1.0, json!({})),
        node("B", "n8n-nodes-base.set", 99.0, json!({})),
        node("C", "n8n-nodes-base.httpRequest", 4.2, json!({})),
        node(
            "D",
            "n8n-nodes-base.slack",
            2.2,
            json!({"resource": "message", "operation": "sing"})
        ),
    ]);
    let found = findings(&site, &nodes).await;
    if site.is_old().await {
        let unchecked = found["unchecked"].to_string();
        assert!(unchecked.contains("n8n 2 has"), "{found}");
        return;
    }
    assert_eq!(found["valid"], false);
    finds(&found, "error", "A", "no node of type");
    finds(&found, "error", "B", "no version 99");
    finds(&found, "error", "C", "url");
    finds(&found, "error", "D", "sing");
}

#[tokio::test]
async fn credentials_are_set_and_there() {
    let Some(site) = Site::new() else { return };
    if site.is_old().await {
        return;
    }
    let parameters = json!({"resource": "message", "operation": "post", "select": "channel"});
    let bare = node("A", "n8n-nodes-base.slack", 2.2, parameters);
    let mut gone = bare.clone();
    gone["name"] = json!("B");
    gone["credentials"] = json!({"slackApi": {"id": unique("x")[..16], "name": "gone"}});
    let found = findings(&site, &json!([webhook("lastNode"), bare, gone])).await;
    finds(&found, "error", "A", "no credential");
    finds(&found, "error", "B", "does not exist");
}

#[tokio::test]
async fn without_the_mcp_server_it_says_what_to_enable() {
    let Some(site) = Site::new() else { return };
    let args = ["--toolsets", "authoring"];
    let server = Server::with_args(SERVER, &args, &site.env_without_mcp()).await;
    let client = server.client().await;
    let workflow = json!({"name": "V", "nodes": [webhook("lastNode")]});
    let found = done!(client, "validate_workflow", {"workflow": workflow});
    assert_contains(&found["unchecked"][0], "N8N_MCP_TOKEN");
}
