//! Plans for workflows of every kind of trigger.

use mcp_core::tool::ToolErrorKind;
use serde_json::json;

use super::*;
use crate::builtin_mcp::McpInputs;
use crate::production_url::{Body, FormValue};
use upstream::http::Method;

fn workflow(nodes: &[(&str, &str, Value)]) -> Workflow {
    let node = |(name, kind, parameters): &(&str, &str, Value)| json!({"name": name, "type": kind, "typeVersion": 2.2, "webhookId": "wid", "parameters": parameters});
    let nodes: Vec<_> = nodes.iter().map(node).collect();
    let settings = json!({"availableInMCP": true});
    let workflow =
        json!({"id": "w", "name": "W", "active": true, "nodes": nodes, "settings": settings});
    serde_json::from_value(workflow).unwrap()
}

fn plan(
    workflow: &Workflow,
    parameters: Value,
    trigger: Option<&str>,
    builtin_mcp: bool,
) -> Result<(String, Start), ToolError> {
    let parameters = serde_json::from_value(parameters).unwrap();
    let access = Access {
        builtin_mcp,
        ..Access::default()
    };
    let http = HttpInput::default();
    let plan = RunPlan::new(workflow, trigger, parameters, http, "rid", &access)?;
    Ok((plan.trigger, plan.start))
}

fn url(workflow: &Workflow, parameters: Value) -> UrlRequest {
    match plan(workflow, parameters, None, false).unwrap().1 {
        Start::Url(request) => request,
        Start::Mcp(request) => panic!("{request:?}"),
    }
}

#[test]
fn webhook_receives_body_query_and_path() {
    let post = workflow(&[("H", "x.webhook", json!({"path": "a", "httpMethod": "POST"}))]);
    let start = url(&post, json!({"n": 1}));
    assert_eq!(start.path, ["webhook", "a"]);
    let body = Some(Body::Json(json!({"n": 1})));
    assert_eq!((start.body, start.query), (body, vec![]));

    let get = workflow(&[("H", "x.webhook", json!({"path": "a/:id"}))]);
    let start = url(
        &get,
        json!({"id": 7, "q": "x y", "deep": [1], "none": null}),
    );
    assert_eq!(start.path, ["webhook", "wid", "a", "7"]);
    let mut sent = start.query;
    sent.sort();
    let query = [("deep", "[1]"), ("q", "x y")].map(|(k, v)| (k.into(), v.into()));
    assert_eq!((start.body, sent), (None, query.to_vec()));
    let bad = json!([{}, {"id": ".."}, {"id": "a/b"}, {"id": ""}, {"id": null}, {"id": [1]}]);
    for bad in bad.as_array().unwrap() {
        let error = plan(&get, bad.clone(), None, false).unwrap_err();
        assert_eq!(error.kind(), ToolErrorKind::InvalidArgument);
    }
}

#[test]
fn chat_receives_message_and_request_id() {
    let chat = workflow(&[("C", "x.chatTrigger", json!({"public": true}))]);
    let start = url(&chat, json!({"message": "hi"}));
    assert_eq!(start.path, ["webhook", "wid", "chat"]);
    let metadata = json!({"mcpRequestId": "rid"});
    let expected = json!({"action": "sendMessage", "chatInput": "hi", "sessionId": "rid", "metadata": metadata});
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
fn form_is_sent_as_by_a_browser() {
    let fields = json!({"values": [
        {"fieldLabel": "Name", "requiredField": true},
        {"fieldLabel": "Age", "fieldType": "number"},
        {"fieldLabel": "Pick", "fieldType": "checkbox"},
        {"fieldLabel": "CV", "fieldType": "file"},
    ]});
    let form = workflow(&[("F", "x.formTrigger", json!({"formFields": fields}))]);
    let start = url(&form, json!({"Name": "Ann", "Age": 7, "Pick": "a"}));
    assert_eq!(start.path, ["form", "wid"]);
    assert_eq!(start.query, [("mcpRequestId".into(), "rid".into())]);
    let sent = [("field-0", "Ann"), ("field-1", "7"), ("field-2", "[\"a\"]")];
    let sent = sent.map(|(key, value)| (key.into(), FormValue::Text(value.into())));
    assert_eq!(start.body, Some(Body::Form(sent.into())));
    for (bad, part) in [
        (json!({"Age": 7}), "asks for `parameters.Name`"),
        (json!({"Name": "Ann", "Sex": "f"}), "no field \"Sex\""),
        (json!({"Name": "Ann", "CV": 1}), "`CV` is a file"),
    ] {
        let error = plan(&form, bad, None, true).unwrap_err();
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn method_headers_query_and_files_are_those_of_the_caller() {
    let hook = json!({"path": "a", "httpMethod": ["GET", "PUT"]});
    let hook = workflow(&[("H", "x.webhook", hook)]);
    let http = |method: &str, headers: Value, files: Value| HttpInput {
        method: Some(method.to_owned()).filter(|method| !method.is_empty()),
        headers: serde_json::from_value(headers).unwrap(),
        query: serde_json::from_value(json!({"q": 1})).unwrap(),
        files: serde_json::from_value(files).unwrap(),
    };
    let plan = |workflow: &Workflow, http, access: &Access| {
        let parameters = serde_json::from_value(json!({"n": 1})).unwrap();
        match RunPlan::new(workflow, None, parameters, http, "rid", access) {
            Ok(plan) => match plan.start {
                Start::Url(request) => Ok(request),
                Start::Mcp(request) => panic!("{request:?}"),
            },
            Err(error) => Err(error.message().to_owned()),
        }
    };
    let (none, open) = (json!({}), Access::default());
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let sent = plan(&hook, http("put", json!({"X-A": "b"}), none.clone()), &open).unwrap();
    assert_eq!(
        (sent.method, sent.query),
        (Method::PUT, vec![pair("q", "1")])
    );
    assert_eq!(sent.headers, [pair("x-a", "b")]);
    let sent = plan(&hook, http("", none.clone(), none.clone()), &open).unwrap();
    assert_eq!(sent.method, Method::GET);
    assert_eq!(sent.query, [pair("n", "1"), pair("q", "1")]);
    let sent = plan(
        &hook,
        http("PUT", none.clone(), json!({"F": ["a", "b"]})),
        &open,
    )
    .unwrap();
    let Some(Body::Form(parts)) = sent.body else {
        panic!("{:?}", sent.body)
    };
    assert_eq!(parts.len(), 3);
    for (method, headers, files, part) in [
        ("POST", none.clone(), none.clone(), "It takes: GET, PUT."),
        ("GET", none.clone(), json!({"F": "a"}), "`files`"),
        ("", json!({"Host": "x"}), none.clone(), "\"Host\""),
        (
            "",
            json!({"X-Forwarded-For": "x"}),
            none.clone(),
            "\"X-Forwarded-For\"",
        ),
        ("", json!({"x-mcp-request-id": "x"}), none.clone(), "sets"),
        (
            "",
            json!({"Content-Encoding": "gzip"}),
            none.clone(),
            "sets",
        ),
        ("", json!({"a b": "x"}), none.clone(), "no name"),
        ("", json!({"a": "x\r\nb: c"}), none.clone(), "line break"),
        (
            "",
            json!({"a": "x".repeat(9_000)}),
            none.clone(),
            "9001 bytes",
        ),
    ] {
        let error = plan(&hook, http(method, headers, files), &open).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let authorization = || http("", json!({"Authorization": "Bearer x"}), json!({}));
    assert!(plan(&hook, authorization(), &open).is_ok());
    let behind_proxy = Access {
        sends_user: true,
        ..Access::default()
    };
    let error = plan(&hook, authorization(), &behind_proxy).unwrap_err();
    assert!(error.contains("sets"), "{error}");
    // The configured credential cannot be replaced.
    let secret = r#"{"K": {"name": "X-Key", "value": "v"}, "B": {"user": "u", "password": "p"}}"#;
    let secret = mcp_serve::Secret::new(Some(secret.to_owned()), None);
    let access = Access {
        builtin_mcp: false,
        sends_user: false,
        credentials: crate::webhook_credentials::WebhookCredentials::read(&secret).unwrap(),
    };
    for (name, header) in [("K", "x-key"), ("B", "Authorization")] {
        let mut closed = workflow(&[(
            "H",
            "x.webhook",
            json!({"path": "a", "authentication": "x"}),
        )]);
        let credential = json!({"x": {"name": name}});
        closed.nodes[0].credentials = serde_json::from_value(credential).unwrap();
        let error = plan(
            &closed,
            http("", json!({header: "x"}), none.clone()),
            &access,
        );
        let error = error.unwrap_err();
        assert!(error.contains("N8N_WEBHOOK_CREDENTIALS"), "{error}");
    }
    let chat = workflow(&[("C", "x.chatTrigger", json!({"public": true}))]);
    let error = plan(&chat, http("POST", none.clone(), none), &open).unwrap_err();
    assert!(error.contains("cannot receive `method`"), "{error}");
}

#[test]
fn url_is_preferred_and_ambiguous_triggers_are_rejected() {
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
    let names = "`A` (webhook), `B` (webhook)";
    assert!(error.message().contains(names), "{error}");
}

#[test]
fn mcp_server_receives_the_inputs_of_the_trigger() {
    let inputs = |kind: &str, node: Value, parameters: Value| {
        let workflow = workflow(&[("T", kind, node)]);
        match plan(&workflow, parameters, None, true).map(|(_, start)| start) {
            Ok(Start::Mcp(start)) => Ok(start.inputs),
            Ok(Start::Url(start)) => panic!("{start:?}"),
            Err(error) => Err(error.kind()),
        }
    };
    let headers = json!({"x-mcp-request-id": "rid"});
    let post = json!({"path": "a", "httpMethod": "POST", "authentication": "basicAuth"});
    let posted = json!({"method": "POST", "headers": headers, "body": {"n": 1}});
    let get = json!({"path": "a", "authentication": "jwtAuth"});
    let got = json!({"method": "GET", "headers": headers, "query": {"n": "1"}});
    let (none, n) = (|| json!({}), || json!({"n": 1}));
    for (kind, node, parameters, expected) in [
        ("x.webhook", post, n(), McpInputs::Webhook(posted)),
        ("x.webhook", get, n(), McpInputs::Webhook(got)),
        (
            "x.formTrigger",
            json!({"authentication": "basicAuth"}),
            n(),
            McpInputs::Form(n()),
        ),
        ("x.manualTrigger", none(), n(), McpInputs::Item(n())),
        (
            "x.executeWorkflowTrigger",
            none(),
            n(),
            McpInputs::Item(n()),
        ),
        ("x.manualTrigger", none(), none(), McpInputs::None),
        ("x.scheduleTrigger", none(), none(), McpInputs::None),
    ] {
        assert_eq!(inputs(kind, node, parameters), Ok(expected), "{kind}");
    }
    let unwanted = inputs("x.scheduleTrigger", none(), n());
    assert_eq!(unwanted, Err(ToolErrorKind::InvalidArgument));
}

#[test]
fn workflow_without_usable_trigger_is_a_conflict() {
    let mut archived = workflow(&[("H", "x.webhook", json!({"path": "a"}))]);
    archived.is_archived = true;
    let without = workflow(&[("S", "n8n-nodes-base.set", json!({}))]);
    for workflow in [archived, without] {
        let error = plan(&workflow, json!({}), None, true).unwrap_err();
        assert_eq!(error.kind(), ToolErrorKind::Conflict);
    }
}
