//! Triggers of every kind, and the ways to them.

use std::sync::LazyLock;

use mcp_serve::Secret;
use reqwest::Method;
use serde_json::json;

use super::*;
use crate::logins::Logins;

static LOGINS: LazyLock<Known> = LazyLock::new(|| {
    let text = r#"{"Mine": {"name": "X-Key", "value": "v"}}"#;
    let secret = Secret::new(Some(text.to_owned()), None);
    Logins::new(secret).read().unwrap_or_default()
});

fn site(active: bool, mcp: bool) -> Site<'static> {
    let means = Means {
        mcp,
        logins: &LOGINS,
    };
    Site {
        active,
        available_in_mcp: true,
        means,
    }
}

#[track_caller]
fn way(kind: &str, parameters: Value, site: Site<'_>) -> Result<Way, String> {
    let node = json!({"name": "T", "type": kind, "typeVersion": 2.2, "webhookId": "wid", "parameters": parameters});
    let node: Node = serde_json::from_value(node).unwrap();
    let kind = Kind::of(&node).unwrap();
    Trigger { node: &node, kind }.way(site)
}

fn webhook(parameters: Value) -> Result<Way, String> {
    way("n8n-nodes-base.webhook", parameters, site(true, false))
}

fn hook(method: Method, path: &[&str], replies_late: bool) -> Result<Way, String> {
    let path = path.iter().map(|segment| (*segment).to_owned()).collect();
    Ok(Way::Webhook(Webhook {
        method,
        path,
        replies_late,
        login: None,
    }))
}

#[test]
fn a_webhook_is_its_method_and_path() {
    assert_eq!(
        webhook(json!({"path": "a"})),
        hook(Method::GET, &["a"], false)
    );
    assert_eq!(
        webhook(json!({"path": "/a/b/", "httpMethod": "POST", "responseMode": "lastNode"})),
        hook(Method::POST, &["a", "b"], true)
    );
    assert_eq!(
        webhook(json!({"path": "a/:id", "httpMethod": ["GET", "POST"]})),
        hook(Method::POST, &["wid", "a", ":id"], false)
    );
    assert_eq!(webhook(json!({})), hook(Method::GET, &["wid"], false));
    assert!(webhook(json!({"path": "={{ 1 }}"})).is_err());
    assert!(webhook(json!({"path": "a", "httpMethod": "={{ 1 }}"})).is_err());
}

#[test]
fn what_is_closed_says_what_would_open_it() {
    #[track_caller]
    fn closed(way: Result<Way, String>, parts: &[&str]) {
        let reason = way.unwrap_err();
        for part in parts {
            assert!(reason.contains(part), "{reason}");
        }
    }
    let hook = json!({"path": "a"});
    let inactive = way("x.webhook", hook, site(false, false));
    closed(inactive, &["activate it", "N8N_MCP_TOKEN"]);
    let secured = json!({"path": "a", "authentication": "headerAuth"});
    closed(webhook(secured), &["headerAuth"]);
    let by_hand = way("x.manualTrigger", json!({}), site(true, false));
    closed(by_hand, &["only n8n's MCP server"]);
    let sub = way("x.executeWorkflowTrigger", json!({}), site(true, false));
    closed(sub, &["only n8n's MCP server"]);
    let hidden = Site {
        available_in_mcp: false,
        ..site(true, true)
    };
    let hidden = way("x.scheduleTrigger", json!({}), hidden);
    closed(hidden, &["Available in MCP"]);
    let event = way("x.githubTrigger", json!({}), site(true, true));
    closed(event, &["add a Webhook trigger"]);
}

#[test]
fn the_mcp_server_opens_more() {
    #[track_caller]
    fn opens(kind: &str, parameters: Value, active: bool, mode: Mode) {
        assert_eq!(
            way(kind, parameters, site(active, true)),
            Ok(Way::Mcp(mode))
        );
    }
    opens("x.manualTrigger", json!({}), true, Mode::Manual);
    opens("x.scheduleTrigger", json!({}), true, Mode::Production);
    opens("x.chatTrigger", json!({}), true, Mode::Production);
    opens("x.executeWorkflowTrigger", json!({}), true, Mode::Test);
    opens("x.executeWorkflowTrigger", json!({}), false, Mode::Test);
    let secured = json!({"path": "a", "authentication": "basicAuth"});
    opens("x.webhook", secured, true, Mode::Production);
    opens("x.webhook", json!({"path": "a"}), false, Mode::Manual);
    opens("x.formTrigger", json!({}), false, Mode::Manual);
}

#[test]
fn chats_and_forms_have_urls_too() {
    let chat = way("x.chatTrigger", json!({"public": true}), site(true, false));
    let expected = Chat {
        id: "wid".into(),
        login: None,
    };
    assert_eq!(chat, Ok(Way::Chat(expected)));

    let fields = json!([
        {"fieldLabel": "Your name", "requiredField": true},
        {"fieldType": "html", "html": "<b>"},
        {"fieldType": "hiddenField", "fieldName": "source"},
        {"fieldLabel": "Colours", "fieldType": "checkbox", "fieldOptions": {"values": [{"option": "red"}]}},
    ]);
    let form = json!({"formFields": {"values": fields}, "options": {"path": "ask/me"}});
    let Ok(Way::Form(form)) = way("x.formTrigger", form, site(true, false)) else {
        panic!("a form");
    };
    assert_eq!(form.path, ["ask", "me"]);
    let rows: Vec<_> = form
        .fields
        .iter()
        .map(|field| (&*field.name, field.index, field.required, &field.kind))
        .collect();
    let expected = [
        ("Your name", 0, true, &FieldKind::Text),
        ("source", 2, false, &FieldKind::Text),
        ("Colours", 3, false, &FieldKind::Choices(vec!["red".into()])),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_url_with_authentication_is_open_with_its_credential() {
    let node = |name: &str| {
        json!({
            "name": "T", "type": "x.webhook",
            "parameters": {"path": "a", "authentication": "headerAuth"},
            "credentials": {"httpHeaderAuth": {"id": "1", "name": name}},
        })
    };
    let way = |name: &str| {
        let node: Node = serde_json::from_value(node(name)).unwrap();
        let kind = Kind::Webhook;
        Trigger { node: &node, kind }.way(site(true, true))
    };
    let Ok(Way::Webhook(webhook)) = way("Mine") else {
        panic!("a webhook");
    };
    assert_eq!(webhook.login.as_deref(), Some("Mine"));
    assert_eq!(way("Other"), Ok(Way::Mcp(Mode::Production)));
}

#[test]
fn a_sub_workflow_tells_its_inputs() {
    let inputs = |parameters: Value| {
        let node =
            json!({"name": "T", "type": "x.executeWorkflowTrigger", "parameters": parameters});
        let node: Node = serde_json::from_value(node).unwrap();
        let kind = Kind::SubWorkflow;
        Trigger { node: &node, kind }.inputs()
    };
    let rows = json!({"values": [{"name": "n", "type": "number"}, {"name": "s"}, {"name": "x", "type": "any"}]});
    let expected = [("n", "number"), ("s", "string"), ("x", "")];
    let expected = expected.map(|(name, kind)| (name.to_owned(), kind));
    assert_eq!(inputs(json!({"workflowInputs": rows})), expected);
    let example = json!({"inputSource": "jsonExample", "jsonExample": "{\"a\": [1], \"b\": true}"});
    let expected = [("a", "array"), ("b", "boolean")].map(|(name, kind)| (name.to_owned(), kind));
    assert_eq!(inputs(example), expected);
    assert!(inputs(json!({"inputSource": "passthrough", "workflowInputs": rows})).is_empty());
}
