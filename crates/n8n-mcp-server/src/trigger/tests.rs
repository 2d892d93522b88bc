//! Triggers of every kind, and the ways to them.

use mcp_serve::Secret;
use serde_json::json;
use upstream::http::Method;

use super::*;

fn access(builtin_mcp: bool) -> Access {
    let text = r#"{"Mine": {"name": "X-Key", "value": "v"}}"#;
    let secret = Secret::new(Some(text.to_owned()), None);
    Access {
        builtin_mcp,
        credentials: WebhookCredentials::read(&secret).unwrap_or_default(),
    }
}

/// A workflow with one trigger of this kind.
fn workflow(kind: &str, parameters: Value) -> Workflow {
    let node = json!({"name": "T", "type": kind, "typeVersion": 2.2, "webhookId": "wid", "parameters": parameters});
    let settings = json!({"availableInMCP": true});
    let workflow =
        json!({"id": "w", "name": "W", "active": true, "settings": settings, "nodes": [node]});
    serde_json::from_value(workflow).unwrap()
}

fn way(workflow: &Workflow, builtin_mcp: bool) -> Result<StartMethod, String> {
    triggers(workflow)[0].way(&access(builtin_mcp))
}

#[test]
fn a_webhook_is_its_method_and_path() {
    for (parameters, expected) in [
        (json!({"path": "a"}), Ok((Method::GET, "a", false))),
        (
            json!({"path": "/a/b/", "httpMethod": "POST", "responseMode": "lastNode"}),
            Ok((Method::POST, "a/b", true)),
        ),
        (
            json!({"path": "a/:id", "httpMethod": ["GET", "POST"]}),
            Ok((Method::POST, "wid/a/:id", false)),
        ),
        (json!({}), Ok((Method::GET, "wid", false))),
        (json!({"path": "={{ 1 }}"}), Err("path")),
        (
            json!({"path": "a", "httpMethod": "={{ 1 }}"}),
            Err("method"),
        ),
    ] {
        let workflow = workflow("n8n-nodes-base.webhook", parameters);
        let trigger = &triggers(&workflow)[0];
        match (trigger.webhook(), expected) {
            (Ok(found), Ok((method, path, late))) => {
                let found = (found.method, found.path.join("/"), trigger.replies_at_end());
                assert_eq!(found, (method, path.to_owned(), late));
                assert_eq!(way(&workflow, false), Ok(StartMethod::Webhook));
            }
            (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_closed_says_what_would_open_it() {
    let mut inactive = workflow("x.webhook", json!({"path": "a"}));
    inactive.active = false;
    let mut hidden = workflow("x.scheduleTrigger", json!({}));
    hidden.settings.clear();
    let secured = json!({"path": "a", "authentication": "headerAuth"});
    for (workflow, builtin_mcp, parts) in [
        (inactive, false, &["activate it", "N8N_MCP_TOKEN"][..]),
        (workflow("x.webhook", secured), false, &["headerAuth"]),
        (
            workflow("x.manualTrigger", json!({})),
            false,
            &["only n8n's MCP server"],
        ),
        (
            workflow("x.executeWorkflowTrigger", json!({})),
            false,
            &["only n8n's MCP server"],
        ),
        (hidden, true, &["Available in MCP"]),
        (
            workflow("x.githubTrigger", json!({})),
            true,
            &["add a Webhook trigger"],
        ),
    ] {
        let reason = way(&workflow, builtin_mcp).unwrap_err();
        for part in parts {
            assert!(reason.contains(part), "{reason}");
        }
    }
}

#[test]
fn the_mcp_server_opens_more() {
    let secured = json!({"path": "a", "authentication": "basicAuth"});
    for (kind, parameters, active, expected) in [
        ("x.manualTrigger", json!({}), true, StartMethod::McpManual),
        (
            "x.scheduleTrigger",
            json!({}),
            true,
            StartMethod::McpProduction,
        ),
        ("x.chatTrigger", json!({}), true, StartMethod::McpProduction),
        (
            "x.executeWorkflowTrigger",
            json!({}),
            true,
            StartMethod::McpTest,
        ),
        (
            "x.executeWorkflowTrigger",
            json!({}),
            false,
            StartMethod::McpTest,
        ),
        ("x.webhook", secured, true, StartMethod::McpProduction),
        (
            "x.webhook",
            json!({"path": "a"}),
            false,
            StartMethod::McpManual,
        ),
        ("x.formTrigger", json!({}), false, StartMethod::McpManual),
    ] {
        let mut workflow = workflow(kind, parameters);
        workflow.active = active;
        assert_eq!(way(&workflow, true), Ok(expected), "{kind}");
    }
}

#[test]
fn chats_and_forms_have_urls_too() {
    let chat = workflow("x.chatTrigger", json!({"public": true}));
    assert_eq!(way(&chat, false), Ok(StartMethod::Chat));
    assert_eq!(triggers(&chat)[0].chat_id(), Ok("wid"));

    let fields = json!([
        {"fieldLabel": "Your name", "requiredField": true},
        {"fieldType": "html", "html": "<b>"},
        {"fieldType": "hiddenField", "fieldName": "source"},
        {"fieldLabel": "Colours", "fieldType": "checkbox", "fieldOptions": {"values": [{"option": "red"}]}},
    ]);
    let form = json!({"formFields": {"values": fields}, "options": {"path": "ask/me"}});
    let form = workflow("x.formTrigger", form);
    assert_eq!(way(&form, false), Ok(StartMethod::Form));
    let form = &triggers(&form)[0];
    assert_eq!(form.form_path().unwrap(), ["ask", "me"]);
    let fields = form.fields();
    let rows: Vec<_> = fields
        .iter()
        .map(|field| (&*field.name, field.index, field.required, &field.kind))
        .collect();
    let expected = [
        ("Your name", 0, true, &FormFieldKind::Text),
        ("source", 2, false, &FormFieldKind::Text),
        (
            "Colours",
            3,
            false,
            &FormFieldKind::Choices(vec!["red".into()]),
        ),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_url_with_authentication_is_open_with_its_credential() {
    for (name, expected) in [
        ("Mine", (StartMethod::Webhook, Some("Mine"))),
        ("Other", (StartMethod::McpProduction, None)),
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
fn a_sub_workflow_tells_its_inputs() {
    let rows = json!({"values": [{"name": "n", "type": "number"}, {"name": "s"}, {"name": "x", "type": "any"}]});
    let example = json!({"inputSource": "jsonExample", "jsonExample": "{\"a\": [1], \"b\": true}"});
    let passthrough = json!({"inputSource": "passthrough", "workflowInputs": rows});
    for (parameters, expected) in [
        (
            json!({"workflowInputs": rows}),
            &[("n", "number"), ("s", "string"), ("x", "")][..],
        ),
        (example, &[("a", "array"), ("b", "boolean")]),
        (passthrough, &[]),
    ] {
        let workflow = workflow("x.executeWorkflowTrigger", parameters);
        let inputs = triggers(&workflow)[0].inputs();
        let inputs: Vec<_> = inputs.iter().map(|(name, kind)| (&**name, *kind)).collect();
        assert_eq!(inputs, expected);
    }
}
