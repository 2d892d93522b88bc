//! Triggers of every kind, and how they can be started.

use mcp_serve::Secret;
use serde_json::json;
use upstream::http::Method;

use super::StartMethod::{Chat, Form, McpManual, McpProduction, McpTest};
use super::*;

fn access(builtin_mcp: bool) -> Access {
    let text = r#"{"Mine": {"name": "X-Key", "value": "v"}}"#;
    let secret = Secret::new(Some(text.to_owned()), None);
    Access {
        builtin_mcp,
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
    triggers(workflow)[0].way(&access(builtin_mcp))
}

#[test]
fn webhook_has_method_and_path() {
    let fixed = json!({"path": "/a/b/", "httpMethod": "POST", "responseMode": "lastNode"});
    let with_parameter = json!({"path": "a/:id", "httpMethod": ["GET", "POST"]});
    let expression = json!({"path": "a", "httpMethod": "={{ 1 }}"});
    for (parameters, expected) in [
        (json!({"path": "a"}), Ok((Method::GET, "a", false))),
        (fixed, Ok((Method::POST, "a/b", true))),
        (with_parameter, Ok((Method::POST, "wid/a/:id", false))),
        (json!({}), Ok((Method::GET, "wid", false))),
        (json!({"path": "={{ 1 }}"}), Err("path")),
        (expression, Err("method")),
    ] {
        let workflow = workflow("n8n-nodes-base.webhook", parameters);
        let trigger = &triggers(&workflow)[0];
        match (trigger.webhook(), expected) {
            (Ok(found), Ok((method, path, at_end))) => {
                let found = (found.method, found.path.join("/"), trigger.replies_at_end());
                assert_eq!(found, (method, path.to_owned(), at_end));
                assert_eq!(way(&workflow, false), Ok(StartMethod::Webhook));
            }
            (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
            other => panic!("{other:?}"),
        }
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
fn chats_and_forms_have_urls() {
    let chat = workflow("x.chatTrigger", json!({"public": true}));
    assert_eq!(way(&chat, false), Ok(Chat));
    assert_eq!(triggers(&chat)[0].chat_id(), Ok("wid"));

    let form = workflow(
        "x.formTrigger",
        json!({"options": {"path": "ask/me"}, "formFields": {"values": [
            {"fieldLabel": "Your name", "requiredField": true},
            {"fieldType": "html", "html": "<b>"},
            {"fieldType": "hiddenField", "fieldName": "source"},
            {"fieldLabel": "Colours", "fieldType": "checkbox", "fieldOptions": {"values": [{"option": "red"}]}},
        ]}}),
    );
    assert_eq!(way(&form, false), Ok(Form));
    let form = &triggers(&form)[0];
    assert_eq!(form.form_path().unwrap(), ["ask", "me"]);
    let field = |name: &str, index, required, kind| FormField {
        name: name.to_owned(),
        index,
        required,
        kind,
    };
    let colours = FormFieldKind::Choices(vec!["red".into()]);
    let expected = [
        field("Your name", 0, true, FormFieldKind::Text),
        field("source", 2, false, FormFieldKind::Text),
        field("Colours", 3, false, colours),
    ];
    assert_eq!(form.fields(), expected);
}

#[test]
fn url_with_authentication_needs_a_configured_credential() {
    for (name, expected) in [
        ("Mine", (StartMethod::Webhook, Some("Mine"))),
        ("Other", (McpProduction, None)),
    ] {
        let secured = json!({"path": "a", "authentication": "headerAuth"});
        let mut workflow = workflow("x.webhook", secured);
        let credentials = json!({"httpHeaderAuth": {"id": "1", "name": name}});
        workflow.nodes[0].credentials = serde_json::from_value(credentials).unwrap();
        let (trigger, access) = (&triggers(&workflow)[0], access(true));
        let found = (trigger.way(&access).unwrap(), trigger.credential(&access));
        assert_eq!(found, expected);
    }
}

#[test]
fn sub_workflow_declares_its_inputs() {
    let rows = json!({"values": [{"name": "n", "type": "number"}, {"name": "s"}, {"name": "x", "type": "any"}]});
    let declared = json!({"workflowInputs": rows});
    let example = json!({"inputSource": "jsonExample", "jsonExample": "{\"a\": [1], \"b\": true}"});
    let passthrough = json!({"inputSource": "passthrough", "workflowInputs": rows});
    for (parameters, expected) in [
        (declared, &[("n", "number"), ("s", "string"), ("x", "")][..]),
        (example, &[("a", "array"), ("b", "boolean")]),
        (passthrough, &[]),
    ] {
        let workflow = workflow("x.executeWorkflowTrigger", parameters);
        let inputs = triggers(&workflow)[0].inputs();
        let inputs: Vec<_> = inputs.iter().map(|(name, kind)| (&**name, *kind)).collect();
        assert_eq!(inputs, expected);
    }
}
