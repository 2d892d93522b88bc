//! The toolset `nodes`.

use serde_json::json;

use super::lab::Lab;
use crate::harness::Server;
use crate::n8n::site::Site;
use crate::n8n::{SERVER, refused};

fn types(found: &serde_json::Value) -> Vec<&str> {
    let rows = found["nodes"].as_array().unwrap().iter();
    rows.map(|row| row["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn nodes_are_found_by_what_they_do() {
    let Some(lab) = Lab::open().await else { return };
    if lab
        .is_too_old("list_nodes", json!({"search": ["slack"]}))
        .await
    {
        return;
    }
    let found = lab
        .done("list_nodes", json!({"search": ["slack", "webhook"]}))
        .await;
    let all = types(&found);
    assert!(
        all.contains(&"n8n-nodes-base.slack") && all.contains(&"n8n-nodes-base.webhook"),
        "{found}"
    );
    let slack = found["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["type"] == "n8n-nodes-base.slack");
    let operations = slack.unwrap()["operations"].as_array().unwrap();
    assert!(
        operations
            .iter()
            .any(|row| row.as_str().unwrap().starts_with("channel: ")),
        "{operations:?}"
    );
    let none = lab.done("list_nodes", json!({"search": ["zzqqx"]})).await;
    assert!(types(&none).is_empty() && none.get("note").is_none());
    let many = lab.done("list_nodes", json!({"search": ["google"]})).await;
    let note = many["note"].as_str().unwrap_or_default();
    assert!(note.contains("\"google\""), "{many}");
    lab.refused("list_nodes", json!({"search": []})).await;
}

#[tokio::test]
async fn nodes_are_found_by_category() {
    let Some(lab) = Lab::open().await else { return };
    if lab
        .is_too_old("list_nodes", json!({"search": ["slack"]}))
        .await
    {
        return;
    }
    let search = |category: &str| json!({"search": ["gmail", "openai"], "category": category});
    let triggers = lab.done("list_nodes", search("trigger")).await;
    assert!(
        types(&triggers).contains(&"n8n-nodes-base.gmailTrigger"),
        "{triggers}"
    );
    assert!(
        types(&triggers)
            .iter()
            .all(|kind| !kind.ends_with(".gmail"))
    );
    let actions = lab.done("list_nodes", search("action")).await;
    assert!(
        types(&actions).contains(&"n8n-nodes-base.gmail"),
        "{actions}"
    );
    let ai = lab.done("list_nodes", search("ai")).await;
    assert!(
        types(&ai).iter().all(|kind| kind.contains("langchain")),
        "{ai}"
    );
    assert!(!types(&ai).is_empty());
}

#[tokio::test]
async fn the_parameters_of_a_node_are_compact_rows() {
    let Some(lab) = Lab::open().await else { return };
    if lab
        .is_too_old("get_node", json!({"type": "n8n-nodes-base.if"}))
        .await
    {
        return;
    }
    let node = lab
        .done("get_node", json!({"type": "n8n-nodes-base.httpRequest"}))
        .await;
    let rows = node["properties"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(row("url")["required"], true, "{node}");
    assert_eq!(row("method")["default"], "GET");
    assert!(row("method")["type"].as_str().unwrap().contains("'POST'"));
    assert!(row("nodeCredentialType")["when"].is_string());
    assert!(node["version"].is_string());
    assert!(
        node.to_string().len() < 12_000,
        "{}",
        node.to_string().len()
    );
    let full = json!({"type": "n8n-nodes-base.httpRequest", "full": true});
    let full = lab.done("get_node", full).await;
    assert!(
        full["definition"].as_str().unwrap().contains("export"),
        "{full}"
    );
}

#[tokio::test]
async fn a_node_with_operations_asks_for_one() {
    let Some(lab) = Lab::open().await else { return };
    if lab
        .is_too_old("get_node", json!({"type": "n8n-nodes-base.if"}))
        .await
    {
        return;
    }
    let node = lab
        .done("get_node", json!({"type": "n8n-nodes-base.slack"}))
        .await;
    assert!(node["operations"].as_array().unwrap().len() > 3, "{node}");
    let one =
        json!({"type": "n8n-nodes-base.slack", "resource": "channel", "operation": "archive"});
    let one = lab.done("get_node", one).await;
    assert!(
        one["credentials"]
            .as_array()
            .unwrap()
            .contains(&json!("slackApi")),
        "{one}"
    );
    let unknown = json!({"type": "n8n-nodes-base.nothing"});
    let message = lab.refused("get_node", unknown).await;
    assert!(message.contains("list_nodes"), "{message}");
}

#[tokio::test]
async fn without_the_mcp_server_it_is_said_what_to_enable() {
    let Some(site) = Site::new() else { return };
    let args = ["--toolsets", "nodes"];
    let server = Server::with_args(SERVER, &args, &site.env_without_mcp()).await;
    let client = server.client().await;
    for (tool, arguments) in [
        ("list_nodes", json!({"search": ["slack"]})),
        ("get_node", json!({"type": "n8n-nodes-base.slack"})),
    ] {
        let message = refused(&client, tool, arguments).await;
        assert!(
            message.contains("MCP access") && message.contains("N8N_MCP_TOKEN"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn packages_of_the_community_are_installed_by_n8n_or_refused_with_its_reason() {
    let Some(lab) = Lab::open().await else { return };
    if lab.is_too_old("list_community_packages", json!({})).await {
        return;
    }
    let listed = lab.done("list_community_packages", json!({})).await;
    assert!(listed["packages"].is_array(), "{listed}");
    let name = "n8n-nodes-nobody-has-published-this";
    let message = lab
        .refused("install_community_package", json!({"name": name}))
        .await;
    assert!(message.contains("Nothing was done yet"), "{message}");
    let sure = json!({"name": name, "confirm": name});
    let message = lab.refused("install_community_package", sure).await;
    assert!(message.contains("vetted"), "{message}");
    let message = lab
        .refused("install_community_package", json!({"name": "../../etc"}))
        .await;
    assert!(message.contains("n8n-nodes-"), "{message}");
}
