//! The toolset `nodes`.

use serde_json::json;

use super::lab::Lab;
use crate::harness::{Server, assert_contains};
use crate::n8n::site::Site;
use crate::n8n::{SERVER, done, refused};

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
    let found = done!(lab, "list_nodes", {"search": ["slack", "webhook"]});
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
    let none = done(&lab, "list_nodes", json!({"search": ["zzqqx"]})).await;
    assert!(types(&none).is_empty() && none.get("note").is_none());
    let many = done(&lab, "list_nodes", json!({"search": ["google"]})).await;
    let note = many["note"].as_str().unwrap_or_default();
    assert!(note.contains("\"google\""), "{many}");
    refused(&lab, "list_nodes", json!({"search": []})).await;
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
    let triggers = done(&lab, "list_nodes", search("trigger")).await;
    assert!(
        types(&triggers).contains(&"n8n-nodes-base.gmailTrigger"),
        "{triggers}"
    );
    assert!(
        types(&triggers)
            .iter()
            .all(|kind| !kind.ends_with(".gmail"))
    );
    let actions = done(&lab, "list_nodes", search("action")).await;
    assert!(
        types(&actions).contains(&"n8n-nodes-base.gmail"),
        "{actions}"
    );
    let ai = done(&lab, "list_nodes", search("ai")).await;
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
    let node = done!(lab, "get_node", {"type": "n8n-nodes-base.httpRequest"});
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
    let full = done!(lab, "get_node", {"type": "n8n-nodes-base.httpRequest", "full": true});
    assert_contains(&full["definition"], "export");
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
    let node = done!(lab, "get_node", {"type": "n8n-nodes-base.slack"});
    assert!(node["operations"].as_array().unwrap().len() > 3, "{node}");
    let one = done!(lab, "get_node", {"type": "n8n-nodes-base.slack", "resource": "channel",
        "operation": "archive"});
    assert!(
        one["credentials"]
            .as_array()
            .unwrap()
            .contains(&json!("slackApi")),
        "{one}"
    );
    let message = refused!(lab, "get_node", {"type": "n8n-nodes-base.nothing"});
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
        assert_contains(&message, "MCP access");
        assert_contains(&message, "N8N_MCP_TOKEN");
    }
}

#[tokio::test]
async fn packages_of_the_community_are_installed_by_n8n_or_refused_with_its_reason() {
    let Some(lab) = Lab::open().await else { return };
    if lab.is_too_old("list_community_packages", json!({})).await {
        return;
    }
    let listed = done(&lab, "list_community_packages", json!({})).await;
    assert!(listed["packages"].is_array(), "{listed}");
    let name = "n8n-nodes-nobody-has-published-this";
    let message = refused!(lab, "install_community_package", {"name": name});
    assert!(message.contains("Nothing was done yet"), "{message}");
    let message = refused!(lab, "install_community_package", {"name": name, "confirm": name});
    assert!(message.contains("vetted"), "{message}");
    let message = refused!(lab, "install_community_package", {"name": "../../etc"});
    assert!(message.contains("n8n-nodes-"), "{message}");
}
