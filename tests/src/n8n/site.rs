//! Workflows on the real n8n, made for one test.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::harness::{eventually, http_client, real, wait_until};

/// The real n8n, seen through its own API.
pub(super) struct Site {
    pub(super) n8n: real::N8n,
}

/// A workflow that was made for a test.
pub(super) struct Workflow {
    pub(super) id: String,
    pub(super) name: String,
}

impl Site {
    pub(super) fn new() -> Option<Self> {
        real::n8n().map(|n8n| Self { n8n })
    }

    /// Waits until no other test keeps n8n as busy as this one will.
    pub(super) async fn alone(&self) -> MutexGuard<'static, ()> {
        static BUSY: Mutex<()> = Mutex::const_new(());
        BUSY.lock().await
    }

    /// The environment of a server that may use everything.
    pub(super) fn env(&self) -> [(&str, &str); 3] {
        let [url, key] = self.env_without_mcp();
        [url, key, ("N8N_MCP_TOKEN", &self.n8n.mcp_token)]
    }

    pub(super) fn env_without_mcp(&self) -> [(&str, &str); 2] {
        [
            ("N8N_URL", &self.n8n.url),
            ("N8N_API_KEY", &self.n8n.api_key),
        ]
    }

    /// One request to n8n's own API.
    pub(super) async fn api(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, text) = self.try_api(method, path, body).await;
        assert!(
            (200..300).contains(&status),
            "{method} {path}: {status} {text}"
        );
        serde_json::from_str(&text).unwrap_or_default()
    }

    async fn try_api(&self, method: &str, path: &str, body: Option<Value>) -> (u16, String) {
        let url = format!("{}/api/v1{path}", self.n8n.url);
        let mut request = http_client()
            .request(method.parse().unwrap(), url)
            .header("X-N8N-API-KEY", &self.n8n.api_key);
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// Makes a workflow of nodes in a row. Its name is unique.
    pub(super) async fn draft(&self, nodes: Vec<Value>, settings: Value) -> Workflow {
        self.named(unique("test"), nodes, settings).await
    }

    /// The same with a name.
    pub(super) async fn named(&self, name: String, nodes: Vec<Value>, settings: Value) -> Workflow {
        let mut connections = json!({});
        for pair in nodes.windows(2) {
            let to = json!({"node": pair[1]["name"], "type": "main", "index": 0});
            connections[pair[0]["name"].as_str().unwrap()] = json!({ "main": [[to]] });
        }
        let mut all = json!({"executionOrder": "v1", "availableInMCP": true});
        all.as_object_mut()
            .unwrap()
            .extend(settings.as_object().unwrap().clone());
        let body =
            json!({"name": name, "nodes": nodes, "connections": connections, "settings": all});
        let made = self.api("POST", "/workflows", Some(body)).await;
        let id = made["id"].as_str().unwrap().to_owned();
        Workflow { id, name }
    }

    /// Makes one and activates it. n8n may still be at it when this returns.
    pub(super) async fn live(&self, nodes: Vec<Value>) -> Workflow {
        self.live_with(nodes, json!({})).await
    }

    pub(super) async fn live_with(&self, nodes: Vec<Value>, settings: Value) -> Workflow {
        let workflow = self.draft(nodes, settings).await;
        self.api(
            "POST",
            &format!("/workflows/{}/activate", workflow.id),
            None,
        )
        .await;
        workflow
    }

    pub(super) async fn execution(&self, run: &Value) -> Value {
        let id = run["execution_id"]
            .as_str()
            .unwrap_or_else(|| panic!("no id: {run}"));
        self.api("GET", &format!("/executions/{id}?includeData=true"), None)
            .await
    }

    /// True for n8n 1: it says nothing of what a key may do.
    pub(super) async fn is_old(&self) -> bool {
        self.try_api("GET", "/discover", None).await.0 == 404
    }

    /// The path of a workflow's webhook.
    pub(super) async fn webhook_path(&self, workflow: &Workflow) -> String {
        let path = format!("/workflows/{}", workflow.id);
        let workflow = self.api("GET", &path, None).await;
        let path = &workflow["nodes"][0]["parameters"]["path"];
        path.as_str().unwrap().to_owned()
    }

    /// Calls a webhook as anybody would.
    pub(super) async fn hook(&self, path: &str, body: Value) {
        let url = format!("{}/webhook/{path}", self.n8n.url);
        let request = http_client()
            .post(url)
            .header("content-type", "application/json");
        let response = request.body(body.to_string()).send().await.unwrap();
        assert!(response.status().is_success(), "{response:?}");
    }

    /// Waits until n8n says this status of what is at `path`.
    pub(super) async fn until(&self, path: &str, status: &str) -> Value {
        eventually(status, async || {
            let found = self.api("GET", path, None).await;
            (found["status"] == status).then_some(found)
        })
        .await
    }

    /// Waits until the newest execution of a workflow is stopped.
    pub(super) async fn until_canceled(&self, workflow: &Workflow) {
        let list = format!("/executions?workflowId={}", workflow.id);
        wait_until("canceled", async || {
            self.api("GET", &list, None).await["data"][0]["status"] == "canceled"
        })
        .await;
    }

    /// Deactivates and deletes; n8n refuses the second until it is done with the first.
    pub(super) async fn delete(&self, workflow: &Workflow) {
        let path = format!("/workflows/{}", workflow.id);
        let deactivate = format!("{path}/deactivate");
        wait_until("the end of the deactivation", async || {
            self.try_api("POST", &deactivate, None).await;
            self.try_api("DELETE", &path, None).await.0 != 409
        })
        .await;
    }
}

/// A name, and a path of a webhook, that nothing else has.
pub(super) fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{}-{next}", uuid::Uuid::new_v4().simple())
}

fn node(name: &str, kind: &str, version: f64, parameters: Value) -> Value {
    json!({
        "id": uuid::Uuid::new_v4().to_string(), "name": name, "type": kind, "typeVersion": version, "position": [0, 0],
        "parameters": parameters, "webhookId": uuid::Uuid::new_v4().to_string(),
    })
}

pub(super) fn webhook(mode: &str) -> Value {
    webhook_at(&unique("hook"), "POST", mode)
}

pub(super) fn webhook_at(path: &str, method: &str, mode: &str) -> Value {
    let parameters =
        json!({"path": path, "httpMethod": method, "responseMode": mode, "options": {}});
    node("Webhook", "n8n-nodes-base.webhook", 2.0, parameters)
}

/// `{"result": <the expression>}`.
pub(super) fn set(expression: &str) -> Value {
    let result = json!({"id": "1", "name": "result", "value": expression, "type": "string"});
    let parameters = json!({"assignments": {"assignments": [result]}, "options": {}});
    node("Set", "n8n-nodes-base.set", 3.4, parameters)
}

/// Puts out what a webhook received as `input`.
pub(super) fn echo() -> Value {
    set("={{ $('Webhook').item.json.body.input }}")
}

pub(super) fn wait(seconds: u32) -> Value {
    let parameters = json!({"amount": seconds, "unit": "seconds"});
    node("Wait", "n8n-nodes-base.wait", 1.1, parameters)
}

pub(super) fn respond() -> Value {
    let parameters = json!({"respondWith": "json", "responseBody": "{\"said\": \"by the node\"}", "options": {}});
    node(
        "Respond",
        "n8n-nodes-base.respondToWebhook",
        1.1,
        parameters,
    )
}

pub(super) fn fail(message: &str) -> Value {
    node(
        "Stop",
        "n8n-nodes-base.stopAndError",
        1.0,
        json!({ "errorMessage": message }),
    )
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
    node("Form", "n8n-nodes-base.formTrigger", 2.2, parameters)
}

pub(super) fn schedule() -> Value {
    let rule = json!({"interval": [{"field": "days", "daysInterval": 30}]});
    node(
        "Schedule",
        "n8n-nodes-base.scheduleTrigger",
        1.2,
        json!({ "rule": rule }),
    )
}

pub(super) fn manual() -> Value {
    node("Manual", "n8n-nodes-base.manualTrigger", 1.0, json!({}))
}

pub(super) fn called_by_another() -> Value {
    let parameters = json!({"inputSource": "passthrough"});
    node(
        "When called",
        "n8n-nodes-base.executeWorkflowTrigger",
        1.1,
        parameters,
    )
}
