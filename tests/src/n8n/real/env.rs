//! A server in front of the real n8n, with a client after its handshake; that n8n, used through its own API; and
//! workflows on it that are made for one test.

use std::ops::Deref;
use std::sync::Mutex;

use tokio::runtime::Builder;

use mcp_client::Client;

use super::counting_proxy::CountingProxy;
use super::*;
use crate::harness::{http_client, real};

/// Derefs to the n8n; `done` and `refused` take it as a client.
pub(super) struct Env {
    n8n: Instance,
    pub(super) server: Server,
    pub(super) client: Client,
}

impl Env {
    /// With all toolsets and both of n8n's tokens; `None` if there is no n8n.
    pub(super) async fn full() -> Option<Self> {
        Self::limited(&[]).await
    }

    /// The same with these options.
    pub(super) async fn limited(options: &[&str]) -> Option<Self> {
        Self::with(&[&["--toolsets", "all"], options].concat()).await
    }

    /// Without the token of n8n's MCP server: triggers are started through their URLs only.
    pub(super) async fn urls() -> Option<Self> {
        let n8n = Instance::new()?;
        let server = Box::pin(server(&["--toolsets", "all"], &n8n.env_without_mcp())).await;
        Some(Self::connected(server, n8n).await)
    }

    pub(super) async fn with(args: &[&str]) -> Option<Self> {
        let n8n = Instance::new()?;
        let server = Box::pin(server(args, &n8n.env())).await;
        Some(Self::connected(server, n8n).await)
    }

    /// Without that token, too, and with a proxy that counts the requests to n8n.
    pub(super) async fn counted() -> Option<(CountingProxy, Self)> {
        let n8n = Instance::new()?;
        let proxy = CountingProxy::start(&n8n.config.url).await;
        let [_, key] = n8n.env_without_mcp();
        let env = [("N8N_URL", proxy.url.as_str()), key];
        let server = Box::pin(server(&["--toolsets", "all"], &env)).await;
        Some((proxy, Self::connected(server, n8n).await))
    }

    async fn connected(server: Server, n8n: Instance) -> Self {
        let client = Box::pin(server.client()).await;
        Self {
            n8n,
            server,
            client,
        }
    }

    /// Runs a workflow; its result, also if it failed.
    pub(super) async fn run(&self, workflow: &TestWorkflow, parameters: Value) -> Value {
        Box::pin(run(&self.client, workflow, parameters)).await
    }

    /// The definitions of the tools that are listed.
    pub(super) async fn tools(&self) -> Vec<Value> {
        let listed = self.server.result("tools/list", json!({})).await;
        listed["tools"].as_array().unwrap().clone()
    }

    /// The names of the tools that are listed.
    pub(super) async fn tool_names(&self) -> Vec<String> {
        let name = |tool: Value| tool["name"].as_str().unwrap().to_owned();
        self.tools().await.into_iter().map(name).collect()
    }
}

/// A server that lets a busy n8n take longer for a call than is usual.
async fn server(args: &[&str], env: &[(&str, &str)]) -> Server {
    let args = [args, &["--call-timeout", "60"]].concat();
    Server::with_args(SERVER, &args, env).await
}

impl Deref for Env {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.n8n
    }
}

impl AsClient for Env {
    fn as_client(&self) -> &Client {
        &self.client
    }
}

pub(super) struct Instance {
    pub(super) config: real::N8n,
    /// The paths of what was made, which ends with the test.
    made: Mutex<Vec<String>>,
}

impl Drop for Instance {
    /// Deletes what was made, the newest first, in a runtime of its own: the test may end by an error.
    fn drop(&mut self) {
        let made = std::mem::take(&mut *self.made.lock().unwrap());
        let delete = || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for path in made.iter().rev() {
                    self.delete_at(path).await;
                }
            });
        };
        std::thread::scope(|scope| _ = scope.spawn(delete).join());
    }
}

/// A workflow that was made for a test.
pub(super) struct TestWorkflow {
    pub(super) id: String,
    pub(super) name: String,
}

impl Instance {
    /// `None` if there is no n8n.
    pub(super) fn new() -> Option<Self> {
        let made = Mutex::default();
        real::n8n().map(|config| Self { config, made })
    }

    /// The workflow in the answer of a tool or of n8n, which ends with the test.
    pub(super) fn adopt(&self, workflow: &Value) -> TestWorkflow {
        let [id, name] = ["id", "name"].map(|member| workflow[member].as_str().unwrap().to_owned());
        self.keep(&format!("/workflows/{id}"));
        TestWorkflow { id, name }
    }

    /// Remembers what ends with the test.
    pub(super) fn keep(&self, path: &str) {
        self.made.lock().unwrap().push(path.to_owned());
    }

    /// The environment of a server that may use everything.
    pub(super) fn env(&self) -> [(&str, &str); 3] {
        let [url, key] = self.env_without_mcp();
        [url, key, ("N8N_MCP_TOKEN", &self.config.mcp_token)]
    }

    pub(super) fn env_without_mcp(&self) -> [(&str, &str); 2] {
        [
            ("N8N_URL", &self.config.url),
            ("N8N_API_KEY", &self.config.api_key),
        ]
    }

    /// One request to n8n's own API.
    pub(super) async fn api(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, text) = self.try_api(method, path, body).await;
        let is_success = (200..300).contains(&status);
        assert!(is_success, "{method} {path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    async fn try_api(&self, method: &str, path: &str, body: Option<Value>) -> (u16, String) {
        let url = format!("{}/api/v1{path}", self.config.url);
        let request = http_client().request(method.parse().unwrap(), url);
        let mut request = request.header("X-N8N-API-KEY", &self.config.api_key);
        if let Some(body) = body {
            let request_with_type = request.header("content-type", "application/json");
            request = request_with_type.body(body.to_string());
        }
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        self.api("GET", path, None).await
    }

    /// Makes a workflow of nodes in a row. Its name is unique.
    pub(super) async fn draft(&self, nodes: Vec<Value>) -> TestWorkflow {
        self.draft_with(nodes, json!({})).await
    }

    /// The same with more settings.
    pub(super) async fn draft_with(&self, nodes: Vec<Value>, settings: Value) -> TestWorkflow {
        let mut connections = json!({});
        for pair in nodes.windows(2) {
            let [from, to] = [0, 1].map(|at| pair[at]["name"].as_str().unwrap());
            connections[from] = leads_to(to);
        }
        self.create(unique("test"), nodes, connections, settings)
            .await
    }

    /// Makes a workflow of nodes with these connections and activates it.
    pub(super) async fn connected_nodes(
        &self,
        nodes: Vec<Value>,
        connections: Value,
    ) -> TestWorkflow {
        let workflow = self.create(unique("test"), nodes, connections, json!({}));
        let workflow = workflow.await;
        self.activate(&workflow).await;
        workflow
    }

    pub(super) async fn create(
        &self,
        name: String,
        nodes: Vec<Value>,
        connections: Value,
        more: Value,
    ) -> TestWorkflow {
        let mut settings = json!({"executionOrder": "v1", "availableInMCP": true});
        let more = more.as_object().unwrap().clone();
        settings.as_object_mut().unwrap().extend(more);
        let body =
            json!({"name": name, "nodes": nodes, "connections": connections, "settings": settings});
        self.adopt(&self.api("POST", "/workflows", Some(body)).await)
    }

    /// Makes a workflow and activates it. n8n may still be activating it when this returns.
    pub(super) async fn live(&self, nodes: Vec<Value>) -> TestWorkflow {
        self.live_with(nodes, json!({})).await
    }

    /// The same with more settings.
    pub(super) async fn live_with(&self, nodes: Vec<Value>, settings: Value) -> TestWorkflow {
        let workflow = self.draft_with(nodes, settings).await;
        self.activate(&workflow).await;
        workflow
    }

    pub(super) async fn activate(&self, workflow: &TestWorkflow) {
        let path = format!("/workflows/{}/activate", workflow.id);
        self.api("POST", &path, None).await;
    }

    /// n8n's own JSON of a workflow.
    pub(super) async fn read(&self, workflow: &TestWorkflow) -> Value {
        self.get(&format!("/workflows/{}", workflow.id)).await
    }

    pub(super) async fn execution(&self, run: &Value) -> Value {
        let id = run["execution_id"].as_str();
        let id = id.unwrap_or_else(|| panic!("no id: {run}"));
        self.get(&format!("/executions/{id}?includeData=true"))
            .await
    }

    pub(super) async fn executions(&self, workflow: &TestWorkflow) -> Value {
        let path = format!("/executions?workflowId={}&limit=100", workflow.id);
        self.get(&path).await["data"].clone()
    }

    /// Calls a webhook, as any client of it.
    pub(super) async fn call_webhook(&self, path: &str, body: Value) {
        let url = format!("{}/webhook/{path}", self.config.url);
        let request = http_client().post(url);
        let request = request.header("content-type", "application/json");
        let response = request.body(body.to_string()).send().await.unwrap();
        assert!(response.status().is_success(), "{response:?}");
    }

    /// Waits until the object at `path` has this status.
    pub(super) async fn wait_for_status(&self, path: &str, status: &str) -> Value {
        eventually(status, async || {
            let found = self.get(path).await;
            (found["status"] == status).then_some(found)
        })
        .await
    }

    pub(super) async fn delete(&self, workflow: &TestWorkflow) {
        self.delete_at(&format!("/workflows/{}", workflow.id)).await;
    }

    /// Deletes an object. n8n refuses that for a workflow, or fails, until it has ended its deactivation.
    async fn delete_at(&self, path: &str) {
        let deactivate = format!("{path}/deactivate");
        wait_until("the end of the deactivation", async || {
            if path.starts_with("/workflows/") {
                self.try_api("POST", &deactivate, None).await;
            }
            let (status, _) = self.try_api("DELETE", path, None).await;
            status < 300 || status == 404
        })
        .await;
    }

    /// Makes a tag with a unique name, which ends with the test; returns its name and id.
    pub(super) async fn tag(&self) -> (String, String) {
        let name = tag_name();
        let id = self.tag_with(&name).await;
        (name, id)
    }

    pub(super) async fn tag_with(&self, name: &str) -> String {
        let tag = json!({ "name": name });
        let made = self.api("POST", "/tags", Some(tag)).await;
        let id = made["id"].as_str().unwrap().to_owned();
        self.keep(&format!("/tags/{id}"));
        id
    }

    /// Replaces the tags of a workflow.
    pub(super) async fn set_tags(&self, workflow: &TestWorkflow, ids: &[&str]) {
        let tags: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
        let path = format!("/workflows/{}/tags", workflow.id);
        self.api("PUT", &path, Some(tags.into())).await;
    }

    /// Makes a credential, which ends with the test; returns its id.
    pub(super) async fn credential(&self, name: &str, kind: &str, data: Value) -> String {
        let body = json!({"name": name, "type": kind, "data": data});
        let made = self.api("POST", "/credentials", Some(body)).await;
        let id = made["id"].as_str().unwrap().to_owned();
        self.keep(&format!("/credentials/{id}"));
        id
    }

    /// A webhook that requires a credential, which ends with the test, and the id and name of that.
    pub(super) async fn secured_webhook(
        &self,
        scheme: &str,
        kind: &str,
        data: Value,
    ) -> (Value, String, String) {
        let name = unique("credential");
        let id = self.credential(&name, kind, data).await;
        let mut trigger = webhook("lastNode");
        trigger["parameters"]["authentication"] = json!(scheme);
        trigger["credentials"] = json!({kind: {"id": id, "name": name}});
        (trigger, id, name)
    }
}

/// A name of a tag that nothing else has: n8n takes 24 characters.
pub(super) fn tag_name() -> String {
    unique("t")[..20].to_owned()
}

/// A name, or a path of a webhook, that nothing else has.
pub(super) fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", uuid::Uuid::new_v4().simple())
}
