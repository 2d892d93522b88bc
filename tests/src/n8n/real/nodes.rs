//! The toolset `nodes`.

use super::*;

fn types(found: &Value) -> Vec<&str> {
    member_texts(&found["nodes"], "type")
}

#[tokio::test]
async fn nodes_are_found_by_search_texts_and_category() {
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
    assert!(types(&none).is_empty());
    refused!(env, "list_nodes", {"search": []});
    let search = |category: &str| json!({"search": ["gmail", "openai"], "category": category});
    let triggers = done(&env, "list_nodes", search("trigger")).await;
    let found = types(&triggers);
    assert!(found.contains(&"n8n-nodes-base.gmailTrigger"), "{triggers}");
    assert!(found.iter().all(|kind| !kind.ends_with(".gmail")));
    let actions = done(&env, "list_nodes", search("action")).await;
    let found = types(&actions);
    assert!(found.contains(&"n8n-nodes-base.gmail"), "{actions}");
    let ai = done(&env, "list_nodes", search("ai")).await;
    let found = types(&ai);
    assert!(found.iter().all(|kind| kind.contains("langchain")), "{ai}");
    assert!(!found.is_empty());
}

#[tokio::test]
async fn nodes_are_described_whole_and_compact_and_their_examples_validate() {
    let Some(env) = Env::full().await else { return };
    let node = done!(env, "get_node", {"type": "n8n-nodes-base.httpRequest"});
    let definition = node["definition"].as_str().unwrap();
    for part in [
        "\nurl: string;\n",
        "// @default GET\nmethod?: 'DELETE' | 'GET'",
        "// @displayOptions.show { authentication: [\"predefinedCredentialType\"] }\nnodeCredentialType",
    ] {
        assert!(definition.contains(part), "{part}: {definition}");
    }
    assert!(node["version"].is_string());
    let size = node.to_string().len();
    assert!(size < 14_000, "{size}");
    let full = done!(env, "get_node", {"type": "n8n-nodes-base.httpRequest", "full": true});
    assert_contains(&full["definition"], "Expression<");
    for (name, shape, outputs) in [
        ("if", "combinator: 'and'", &["0 true", "1 false"][..]),
        ("set", "assignments: Array<", &["0 main"]),
        ("scheduleTrigger", "minutesInterval?", &["0 main"]),
        ("switch", "rules", &[]),
        ("httpRequest", "batchSize?", &["0 main"]),
        ("webhook", "rawBody?", &["0 main"]),
        ("code", "jsCode", &["0 main"]),
        ("merge", "combineBy", &["0 main"]),
        ("splitInBatches", "reset?", &["0 done", "1 loop"]),
        ("agent", "systemMessage?", &["0 main"]),
    ] {
        let kind = match name {
            "agent" => "@n8n/n8n-nodes-langchain.agent".to_owned(),
            name => format!("n8n-nodes-base.{name}"),
        };
        let node = done!(env, "get_node", {"type": kind});
        let text = node.to_string();
        assert!(text.len() <= 14_000, "{kind}: {}", text.len());
        assert!(text.contains(shape), "{kind}: {text}");
        if !outputs.is_empty() {
            assert_eq!(node["outputs"], json!(outputs), "{kind}");
        }
        let parameters = &node["example"];
        if parameters.is_null() {
            continue;
        }
        let version: f64 = node["version"].as_str().unwrap().parse().unwrap();
        let checked = json!({"name": "N", "type": kind, "typeVersion": version,
            "parameters": parameters});
        let workflow = json!({"name": "V", "nodes": [webhook("lastNode"), checked],
            "connections": {"Webhook": leads_to("N")}});
        let found = done!(env, "validate_workflow", {"workflow": workflow});
        assert_eq!(found["valid"], true, "{kind}: {found}");
    }
    let agent = done!(env, "get_node", {"type": "@n8n/n8n-nodes-langchain.agent"});
    assert_contains(&agent["inputs"], "ai_languageModel");
    let postgres = done!(env, "get_node", {"type": "n8n-nodes-base.postgres"});
    assert_contains(&postgres.to_string(), "postgres");
    let slack = done!(env, "get_node", {"type": "n8n-nodes-base.slack"});
    assert!(slack["operations"].as_array().unwrap().len() > 3, "{slack}");
    assert_contains(&slack["operations"], "getAll");
    let one = done!(env, "get_node", {"type": "n8n-nodes-base.slack", "resource": "channel",
        "operation": "archive"});
    assert_contains(&one["definition"], "slackApi: ");
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
    let workflow = json!({"name": "V", "nodes": [webhook("lastNode")]});
    let found = done!(env, "validate_workflow", {"workflow": workflow});
    assert_contains(&found["unchecked"], "N8N_MCP_TOKEN");
}
