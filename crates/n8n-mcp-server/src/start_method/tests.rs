//! Triggers of every kind, and how they can be started.

use mcp_serve::Secret;
use n8n_workflow::Workflow;
use n8n_workflow::trigger::triggers;
use serde_json::{Value, json};

use super::StartMethod::{Chat, Form, McpManual, McpProduction, McpTest, Webhook};
use super::*;

fn access(builtin_mcp: bool) -> Access {
    let text = r#"{"Mine": {"name": "X-Key", "value": "v"}}"#;
    let secret = Secret::new(Some(text.to_owned()), None);
    Access {
        builtin_mcp,
        sends_user: false,
        credentials: WebhookCredentials::read(&secret).unwrap_or_default(),
    }
}

fn workflow(kind: &str, parameters: Value) -> Workflow {
    let workflow = json!({
        "id": "w", "name": "W", "active": true, "settings": {"availableInMCP": true},
        "nodes": [{"name": "T", "type": kind, "typeVersion": 2.2, "webhookId": "wid", "parameters": parameters}],
    });
    serde_json::from_value(workflow).unwrap()
}

fn way(workflow: &Workflow, builtin_mcp: bool) -> Result<StartMethod, String> {
    access(builtin_mcp).way(&triggers(workflow)[0])
}

#[test]
fn trigger_with_a_url_is_started_through_it() {
    for (kind, parameters, expected) in [
        ("x.webhook", json!({"path": "a"}), Webhook),
        ("x.chatTrigger", json!({"public": true}), Chat),
        (
            "x.formTrigger",
            json!({"options": {"path": "ask/me"}}),
            Form,
        ),
    ] {
        assert_eq!(way(&workflow(kind, parameters), false), Ok(expected));
    }
}

#[test]
fn trigger_that_cannot_be_started_returns_advice() {
    let mut inactive = workflow("x.webhook", json!({"path": "a"}));
    inactive.active = false;
    let mut hidden = workflow("x.scheduleTrigger", json!({}));
    hidden.settings.clear();
    let secured = json!({"path": "a", "authentication": "headerAuth"});
    let secured = workflow("x.webhook", secured);
    let bare = |kind: &str| workflow(kind, json!({}));
    for (workflow, builtin_mcp, parts) in [
        (inactive, false, &["activate it", "N8N_MCP_TOKEN"][..]),
        (secured, false, &["headerAuth"]),
        (bare("x.manualTrigger"), false, &["only n8n's MCP server"]),
        (
            bare("x.executeWorkflowTrigger"),
            false,
            &["only n8n's MCP server"],
        ),
        (hidden, true, &["Available in MCP"]),
        (bare("x.githubTrigger"), true, &["add a Webhook trigger"]),
    ] {
        let reason = way(&workflow, builtin_mcp).unwrap_err();
        assert!(parts.iter().all(|part| reason.contains(part)), "{reason}");
    }
}

#[test]
fn mcp_server_starts_more_triggers() {
    let (none, path) = (json!({}), json!({"path": "a"}));
    let secured = json!({"path": "a", "authentication": "basicAuth"});
    for (kind, parameters, active, expected) in [
        ("x.manualTrigger", &none, true, McpManual),
        ("x.scheduleTrigger", &none, true, McpProduction),
        ("x.chatTrigger", &none, true, McpProduction),
        ("x.executeWorkflowTrigger", &none, true, McpTest),
        ("x.executeWorkflowTrigger", &none, false, McpTest),
        ("x.webhook", &secured, true, McpProduction),
        ("x.webhook", &path, false, McpManual),
        ("x.formTrigger", &none, false, McpManual),
    ] {
        let mut workflow = workflow(kind, parameters.clone());
        workflow.active = active;
        assert_eq!(way(&workflow, true), Ok(expected), "{kind}");
    }
}

#[test]
fn url_with_authentication_needs_a_configured_credential() {
    for (name, expected) in [
        ("Mine", (Webhook, Some("Mine"))),
        ("Other", (McpProduction, None)),
    ] {
        let secured = json!({"path": "a", "authentication": "headerAuth"});
        let mut workflow = workflow("x.webhook", secured);
        let credentials = json!({"httpHeaderAuth": {"id": "1", "name": name}});
        workflow.nodes[0].credentials = serde_json::from_value(credentials).unwrap();
        let (trigger, access) = (&triggers(&workflow)[0], access(true));
        let found = (access.way(trigger).unwrap(), access.credential(trigger));
        assert_eq!(found, expected);
    }
}
