//! Nodes of workflows for tests.

use super::*;

pub(super) fn node(name: &str, kind: &str, version: f64, parameters: Value) -> Value {
    json!({
        "id": uuid::Uuid::new_v4().to_string(), "name": name, "type": kind, "typeVersion": version, "position": [0, 0],
        "parameters": parameters, "webhookId": uuid::Uuid::new_v4().to_string(),
    })
}

pub(super) fn base(name: &str, kind: &str, version: f64, parameters: Value) -> Value {
    node(name, &format!("n8n-nodes-base.{kind}"), version, parameters)
}

pub(super) fn webhook(mode: &str) -> Value {
    webhook_at(&unique("hook"), "POST", mode)
}

pub(super) fn webhook_at(path: &str, method: &str, mode: &str) -> Value {
    let parameters =
        json!({"path": path, "httpMethod": method, "responseMode": mode, "options": {}});
    base("Webhook", "webhook", 2.0, parameters)
}

/// Puts out `{"result": <the expression>}`.
pub(super) fn set(expression: &str) -> Value {
    let result = json!({"id": "1", "name": "result", "value": expression, "type": "string"});
    let parameters = json!({"assignments": {"assignments": [result]}, "options": {}});
    base("Set", "set", 3.4, parameters)
}

/// Puts out the `input` that a webhook received.
pub(super) fn echo() -> Value {
    set("={{ $('Webhook').item.json.body.input }}")
}

pub(super) fn wait(seconds: u32) -> Value {
    let parameters = json!({"amount": seconds, "unit": "seconds"});
    base("Wait", "wait", 1.1, parameters)
}

pub(super) fn respond() -> Value {
    let parameters = json!({"respondWith": "json", "responseBody": "{\"said\": \"by the node\"}", "options": {}});
    base("Respond", "respondToWebhook", 1.1, parameters)
}

pub(super) fn fail(message: &str) -> Value {
    let parameters = json!({ "errorMessage": message });
    base("Stop", "stopAndError", 1.0, parameters)
}

pub(super) fn chat() -> Value {
    let parameters = json!({"public": true, "options": {}});
    node(
        "Chat",
        "@n8n/n8n-nodes-langchain.chatTrigger",
        1.1,
        parameters,
    )
}

pub(super) fn form() -> Value {
    form_with(&json!([{"fieldLabel": "input"}]))
}

pub(super) fn form_with(fields: &Value) -> Value {
    let fields = json!({ "values": fields });
    let parameters = json!({"formTitle": "F", "formFields": fields, "options": {}});
    base("Form", "formTrigger", 2.2, parameters)
}

pub(super) fn schedule() -> Value {
    let rule = json!({"interval": [{"field": "days", "daysInterval": 30}]});
    base("Schedule", "scheduleTrigger", 1.2, json!({ "rule": rule }))
}

pub(super) fn manual() -> Value {
    base("Manual", "manualTrigger", 1.0, json!({}))
}

pub(super) fn called_by_another() -> Value {
    let parameters = json!({"inputSource": "passthrough"});
    base("When called", "executeWorkflowTrigger", 1.1, parameters)
}

/// The parameters of a node that calls this workflow.
pub(super) fn locator(id: &str) -> Value {
    json!({"workflowId": {"__rl": true, "mode": "id", "value": id}, "options": {}})
}

/// The place of a node to which a connection leads.
pub(super) fn target(node: &str) -> Value {
    json!({"node": node, "type": "main", "index": 0})
}

/// The connections of a node with one output.
pub(super) fn leads_to(node: &str) -> Value {
    json!({"main": [[target(node)]]})
}

pub(super) fn code(text: &str) -> Value {
    let parameters = json!({"mode": "runOnceForAllItems", "jsCode": text});
    base("Code", "code", 2.0, parameters)
}

pub(super) fn http_request(url: &str) -> Value {
    let parameters = json!({"url": url, "options": {}});
    base("HTTP Request", "httpRequest", 4.0, parameters)
}

pub(super) fn sticky(text: &str) -> Value {
    base("Note", "stickyNote", 1.0, json!({"content": text}))
}
