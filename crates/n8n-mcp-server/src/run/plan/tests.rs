//! Plans for workflows of every kind of trigger.

use mcp_core::tool::ToolErrorKind;
use serde_json::json;

use super::*;
use crate::builtin_mcp::McpInputs;
use crate::production_url::{Body, FormValue};
use crate::webhook_credentials::WebhookCredentials;

/// An active workflow with these nodes: (name, kind, parameters).
fn workflow(nodes: &[(&str, &str, Value)]) -> Workflow {
    let nodes: Vec<_> = nodes
        .iter()
        .map(|(name, kind, parameters)| {
            json!({
                "name": name, "type": kind, "typeVersion": 2.2, "webhookId": "wid",
                "parameters": parameters,
            })
        })
        .collect();
    let workflow = json!({
        "id": "w", "name": "W", "active": true, "nodes": nodes,
        "settings": {"availableInMCP": true},
    });
    serde_json::from_value(workflow).unwrap()
}

/// The trigger that is chosen, and the request that starts it.
fn plan(
    workflow: &Workflow,
    parameters: Value,
    trigger: Option<&str>,
    builtin_mcp: bool,
) -> Result<(String, Start), ToolError> {
    let parameters = serde_json::from_value(parameters).unwrap();
    let access = Access {
        builtin_mcp,
        credentials: WebhookCredentials::default(),
    };
    let plan = RunPlan::new(workflow, trigger, parameters, "rid", &access)?;
    Ok((plan.trigger, plan.start))
}

fn url(workflow: &Workflow, parameters: Value) -> UrlRequest {
    match plan(workflow, parameters, None, false).unwrap().1 {
        Start::Url(request) => request,
        Start::Mcp(request) => panic!("{request:?}"),
    }
}

#[test]
fn a_webhook_gets_body_query_and_path() {
    let post = workflow(&[("H", "x.webhook", json!({"path": "a", "httpMethod": "POST"}))]);
    let start = url(&post, json!({"n": 1}));
    assert_eq!(start.path, ["webhook", "a"]);
    assert_eq!(
        (start.body, start.query),
        (Some(Body::Json(json!({"n": 1}))), vec![])
    );

    let get = workflow(&[("H", "x.webhook", json!({"path": "a/:id"}))]);
    let parameters = json!({"id": 7, "q": "x y", "deep": [1], "none": null});
    let start = url(&get, parameters);
    assert_eq!(start.path, ["webhook", "wid", "a", "7"]);
    let mut sent = start.query;
    sent.sort();
    let query = [("deep", "[1]"), ("q", "x y")].map(|(k, v)| (k.into(), v.into()));
    assert_eq!((start.body, sent), (None, query.to_vec()));
    for bad in [
        json!({}),
        json!({"id": ".."}),
        json!({"id": "a/b"}),
        json!({"id": ""}),
        json!({"id": null}),
        json!({"id": [1]}),
    ] {
        let error = plan(&get, bad, None, false).unwrap_err();
        assert_eq!(error.kind(), ToolErrorKind::InvalidArgument);
    }
}

#[test]
fn a_chat_gets_its_text_and_keeps_our_id() {
    let chat = workflow(&[("C", "x.chatTrigger", json!({"public": true}))]);
    let start = url(&chat, json!({"message": "hi"}));
    assert_eq!(start.path, ["webhook", "wid", "chat"]);
    let expected = json!({
        "action": "sendMessage", "chatInput": "hi", "sessionId": "rid",
        "metadata": {"mcpRequestId": "rid"},
    });
    assert_eq!(start.body, Some(Body::Json(expected)));
    let more = json!({"chatInput": "hi", "sessionId": "s", "metadata": {"a": 1}});
    let start = url(&chat, more);
    let Some(Body::Json(body)) = start.body else {
        panic!("{start:?}");
    };
    assert_eq!(body["sessionId"], "s");
    assert_eq!(body["metadata"], json!({"a": 1, "mcpRequestId": "rid"}));
    assert!(plan(&chat, json!({"a": "x", "b": "y"}), None, false).is_err());
    assert!(plan(&chat, json!({}), None, false).is_err());
}

#[test]
fn a_form_is_filled_in_as_a_browser_would() {
    let fields = json!({"values": [
        {"fieldLabel": "Name", "requiredField": true},
        {"fieldLabel": "Age", "fieldType": "number"},
        {"fieldLabel": "Pick", "fieldType": "checkbox"},
        {"fieldLabel": "CV", "fieldType": "file"},
    ]});
    let form = workflow(&[("F", "x.formTrigger", json!({"formFields": fields}))]);
    let parameters = json!({"Name": "Ann", "Age": 7, "Pick": "a"});
    let start = url(&form, parameters);
    assert_eq!(start.path, ["form", "wid"]);
    assert_eq!(start.query, [("mcpRequestId".into(), "rid".into())]);
    let sent = [("field-0", "Ann"), ("field-1", "7"), ("field-2", "[\"a\"]")];
    let sent = sent.map(|(key, value)| (key.into(), FormValue::Text(value.into())));
    let sent = Vec::from(sent);
    assert_eq!(start.body, Some(Body::Form(sent)));
    for (bad, part) in [
        (json!({"Age": 7}), "asks for `parameters.Name`"),
        (json!({"Name": "Ann", "Sex": "f"}), "no field \"Sex\""),
        (json!({"Name": "Ann", "CV": 1}), "`parameters.CV` is a file"),
    ] {
        let error = plan(&form, bad, None, true).unwrap_err();
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn a_url_goes_first_and_equals_are_asked_about() {
    let hook = |path: &str| json!({"path": path, "httpMethod": "POST"});
    let mixed = workflow(&[
        ("M", "x.manualTrigger", json!({})),
        ("S", "x.scheduleTrigger", json!({})),
        ("H", "x.webhook", hook("a")),
    ]);
    assert_eq!(plan(&mixed, json!({}), None, true).unwrap().0, "H");
    assert_eq!(plan(&mixed, json!({}), Some("S"), true).unwrap().0, "S");
    let error = plan(&mixed, json!({}), Some("S"), false).unwrap_err();
    assert_eq!(error.kind(), ToolErrorKind::Conflict);
    let two = workflow(&[("A", "x.webhook", hook("a")), ("B", "x.webhook", hook("b"))]);
    let error = plan(&two, json!({}), None, true).unwrap_err();
    assert!(
        error.message().contains("`A` (webhook), `B` (webhook)"),
        "{error}"
    );
}

#[test]
fn the_mcp_server_gets_what_the_trigger_takes() {
    let inputs = |kind: &str, node: Value, parameters: Value| {
        let workflow = workflow(&[("T", kind, node)]);
        match plan(&workflow, parameters, None, true).map(|(_, start)| start) {
            Ok(Start::Mcp(start)) => Ok(start.inputs),
            Ok(Start::Url(start)) => panic!("{start:?}"),
            Err(error) => Err(error.kind()),
        }
    };
    let secured = json!({"path": "a", "httpMethod": "POST", "authentication": "basicAuth"});
    let headers = json!({"x-mcp-request-id": "rid"});
    assert_eq!(
        inputs("x.webhook", secured, json!({"n": 1})),
        Ok(McpInputs::Webhook(
            json!({"method": "POST", "headers": headers, "body": {"n": 1}})
        ))
    );
    assert_eq!(
        inputs(
            "x.webhook",
            json!({"path": "a", "authentication": "jwtAuth"}),
            json!({"n": 1})
        ),
        Ok(McpInputs::Webhook(
            json!({"method": "GET", "headers": headers, "query": {"n": "1"}})
        ))
    );
    let secured = json!({"authentication": "basicAuth"});
    let form = inputs("x.formTrigger", secured, json!({"f": 1}));
    assert_eq!(form, Ok(McpInputs::Form(json!({"f": 1}))));
    for kind in ["x.manualTrigger", "x.executeWorkflowTrigger"] {
        let item = inputs(kind, json!({}), json!({"n": 1}));
        assert_eq!(item, Ok(McpInputs::Item(json!({"n": 1}))));
    }
    let nothing = inputs("x.manualTrigger", json!({}), json!({}));
    assert_eq!(nothing, Ok(McpInputs::None));
    assert_eq!(
        inputs("x.scheduleTrigger", json!({}), json!({})),
        Ok(McpInputs::None)
    );
    let unwanted = inputs("x.scheduleTrigger", json!({}), json!({"n": 1}));
    assert_eq!(unwanted, Err(ToolErrorKind::InvalidArgument));
}

#[test]
fn nothing_is_started_where_nothing_can_be() {
    let mut archived = workflow(&[("H", "x.webhook", json!({"path": "a"}))]);
    archived.is_archived = true;
    let without = workflow(&[("S", "n8n-nodes-base.set", json!({}))]);
    for workflow in [archived, without] {
        let error = plan(&workflow, json!({}), None, true).unwrap_err();
        assert_eq!(error.kind(), ToolErrorKind::Conflict);
    }
}

#[test]
fn what_an_older_n8n_would_start_is_known() {
    let all = workflow(&[
        ("M", "x.manualTrigger", json!({})),
        ("S", "x.scheduleTrigger", json!({})),
        ("C", "x.chatTrigger", json!({})),
    ]);
    for (name, expected) in [("M", false), ("S", true), ("C", false)] {
        let parameters = if name == "C" {
            json!({"chatInput": "x"})
        } else {
            json!({})
        };
        match plan(&all, parameters, Some(name), true).unwrap().1 {
            Start::Mcp(start) => assert_eq!(start.is_default, expected, "{name}"),
            Start::Url(start) => panic!("{start:?}"),
        }
    }
}
