//! The toolset `nodes`.

use super::*;

fn types(found: &Value) -> Vec<&str> {
    member_texts(&found["nodes"], "type")
}

#[tokio::test]
async fn nodes_are_found_by_search_texts() {
    let Some(env) = Env::full().await else { return };
    let found = done!(env, "list_nodes", {"search": ["slack", "webhook"]});
    let all = types(&found);
    assert!(all.contains(&"n8n-nodes-base.webhook"), "{found}");
    let slack = all.iter().position(|kind| *kind == "n8n-nodes-base.slack");
    let operations = &found["nodes"][slack.expect("slack")]["operations"];
    let mut rows = operations.as_array().unwrap().iter();
    let is_channel = |row: &Value| row.as_str().unwrap().starts_with("channel: ");
    assert!(rows.any(is_channel), "{operations}");
    let none = done!(env, "list_nodes", {"search": ["zzqqx"]});
    assert!(types(&none).is_empty() && none.get("note").is_none());
    let many = done!(env, "list_nodes", {"search": ["google"]});
    assert_contains(&many["note"], "\"google\"");
    refused!(env, "list_nodes", {"search": []});
}

#[tokio::test]
async fn nodes_are_filtered_by_category() {
    let Some(env) = Env::full().await else { return };
    let search = |category: &str| json!({"search": ["gmail", "openai"], "category": category});
    let triggers = done(&env, "list_nodes", search("trigger")).await;
    let found = types(&triggers);
    assert!(found.contains(&"n8n-nodes-base.gmailTrigger"), "{triggers}");
    assert!(found.iter().all(|kind| !kind.ends_with(".gmail")));
    let actions = done(&env, "list_nodes", search("action")).await;
    assert!(
        types(&actions).contains(&"n8n-nodes-base.gmail"),
        "{actions}"
    );
    let ai = done(&env, "list_nodes", search("ai")).await;
    let found = types(&ai);
    assert!(found.iter().all(|kind| kind.contains("langchain")), "{ai}");
    assert!(!found.is_empty());
}

#[tokio::test]
async fn parameters_of_a_node_are_compact_rows() {
    let Some(env) = Env::full().await else { return };
    let node = done!(env, "get_node", {"type": "n8n-nodes-base.httpRequest"});
    let rows = node["properties"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(row("url")["required"], true, "{node}");
    assert_eq!(row("method")["default"], "GET");
    assert!(row("method")["type"].as_str().unwrap().contains("'POST'"));
    assert!(row("nodeCredentialType")["when"].is_string());
    assert!(node["version"].is_string());
    let size = node.to_string().len();
    assert!(size < 12_000, "{size}");
    let full = done!(env, "get_node", {"type": "n8n-nodes-base.httpRequest", "full": true});
    assert_contains(&full["definition"], "export");
}

#[tokio::test]
async fn common_nodes_are_described_whole_and_their_examples_validate() {
    let Some(env) = Env::full().await else { return };
    let one_output = json!(["0 main"]);
    for (kind, shape, outputs) in [
        (
            "n8n-nodes-base.if",
            "combinator: 'and'",
            json!(["0 true", "1 false"]),
        ),
        (
            "n8n-nodes-base.set",
            "assignments: Array<",
            one_output.clone(),
        ),
        (
            "n8n-nodes-base.scheduleTrigger",
            "minutesInterval?",
            one_output.clone(),
        ),
        ("n8n-nodes-base.switch", "rules", Value::Null),
        (
            "n8n-nodes-base.httpRequest",
            "batchSize?",
            one_output.clone(),
        ),
        ("n8n-nodes-base.webhook", "rawBody?", one_output.clone()),
        ("n8n-nodes-base.code", "jsCode", one_output.clone()),
        ("n8n-nodes-base.merge", "combineBy", one_output.clone()),
        (
            "n8n-nodes-base.splitInBatches",
            "reset?",
            json!(["0 done", "1 loop"]),
        ),
        (
            "@n8n/n8n-nodes-langchain.agent",
            "systemMessage?",
            one_output.clone(),
        ),
    ] {
        let node = done!(env, "get_node", {"type": kind});
        let text = node.to_string();
        assert!(text.len() <= 6_000, "{kind}: {}", text.len());
        assert!(text.contains(shape), "{kind}: {text}");
        if !outputs.is_null() {
            assert_eq!(node["outputs"], outputs, "{kind}");
        }
        let parameters = &node["example"];
        if parameters.is_null() {
            continue;
        }
        let version: f64 = node["version"].as_str().unwrap().parse().unwrap();
        let checked = json!({"name": "N", "type": kind, "typeVersion": version,
            "parameters": parameters});
        let connections =
            json!({"Webhook": {"main": [[{"node": "N", "type": "main", "index": 0}]]}});
        let workflow = json!({"name": "V", "nodes": [webhook("lastNode"), checked],
            "connections": connections});
        let found = done!(env, "validate_workflow", {"workflow": workflow});
        assert_eq!(found["valid"], true, "{kind}: {found}");
    }
    let agent = done!(env, "get_node", {"type": "@n8n/n8n-nodes-langchain.agent"});
    assert_contains(&agent["inputs"], "ai_languageModel");
    let postgres = done!(env, "get_node", {"type": "n8n-nodes-base.postgres"});
    assert_contains(&postgres["credentials"], "postgres");
    let slack = done!(env, "get_node", {"type": "n8n-nodes-base.slack"});
    assert_contains(&slack["operations"], "getAll");
}

#[tokio::test]
async fn node_with_operations_requires_one() {
    let Some(env) = Env::full().await else { return };
    let node = done!(env, "get_node", {"type": "n8n-nodes-base.slack"});
    assert!(node["operations"].as_array().unwrap().len() > 3, "{node}");
    let one = done!(env, "get_node", {"type": "n8n-nodes-base.slack", "resource": "channel",
        "operation": "archive"});
    let credentials = one["credentials"].as_array().unwrap();
    assert!(credentials.contains(&json!("slackApi")), "{one}");
    refused!(env, "get_node", {"type": "n8n-nodes-base.nothing"}, "list_nodes");
}

#[tokio::test]
async fn without_mcp_token_the_error_says_what_to_configure() {
    let Some(env) = Env::urls().await else { return };
    for (tool, arguments) in [
        ("list_nodes", json!({"search": ["slack"]})),
        ("get_node", json!({"type": "n8n-nodes-base.slack"})),
    ] {
        let message = assert_refused(&env, tool, arguments, "MCP access").await;
        assert_contains(&message, "N8N_MCP_TOKEN");
    }
}
