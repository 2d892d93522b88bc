//! A server before the real n8n, with a client after its handshake.

use std::ops::Deref;

use mcp_client::Client;
use serde_json::{Value, json};

use crate::harness::Server;
use crate::n8n::site::{Site, Workflow};
use crate::n8n::{SERVER, refused};

pub(super) struct Lab {
    pub(super) site: Site,
    pub(super) server: Server,
    pub(super) client: Client,
}

impl Lab {
    /// With everything that there is; `None` where no n8n is.
    pub(super) async fn open() -> Option<Self> {
        Self::with(&["--toolsets", "all"]).await
    }

    pub(super) async fn with(args: &[&str]) -> Option<Self> {
        let site = Site::new()?;
        let server = Box::pin(Server::with_args(SERVER, args, &site.env())).await;
        let client = Box::pin(server.client()).await;
        Some(Self {
            site,
            server,
            client,
        })
    }

    /// Runs a workflow; its result, whatever it is.
    pub(super) async fn run(&self, workflow: &Workflow, parameters: Value) -> Value {
        Box::pin(super::run(&self.client, workflow, parameters)).await
    }

    /// Names of the tools that are listed.
    pub(super) async fn tools(&self) -> Vec<String> {
        let listed = self.server.result("tools/list", json!({})).await;
        let tools = listed["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The id of the tag `name`, which is made if it is not there.
    pub(super) async fn tag(&self, name: &str) -> String {
        let known = self.site.api("GET", "/tags?limit=250", None).await;
        let known = known["data"]
            .as_array()
            .unwrap()
            .iter()
            .find(|tag| tag["name"] == name);
        let tag = match known {
            Some(tag) => tag.clone(),
            None => {
                self.site
                    .api("POST", "/tags", Some(json!({"name": name})))
                    .await
            }
        };
        tag["id"].as_str().unwrap().to_owned()
    }

    /// Makes a workflow with a name that others may have too, and activates it.
    pub(super) async fn live_as(&self, name: &str, nodes: Vec<Value>) -> Workflow {
        let workflow = self.site.named(name.to_owned(), nodes, json!({})).await;
        let path = format!("/workflows/{}/activate", workflow.id);
        self.site.api("POST", &path, None).await;
        workflow
    }

    /// On n8n 1: checks that the tool says so, and is true.
    pub(super) async fn is_too_old(&self, tool: &str, arguments: Value) -> bool {
        if !self.site.is_old().await {
            return false;
        }
        let message = refused(self, tool, arguments).await;
        assert!(message.contains("pdate n8n"), "{tool}: {message}");
        true
    }

    /// Gives a workflow these tags and no others.
    pub(super) async fn put_tags(&self, workflow: &Workflow, ids: &[&str]) {
        let tags: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
        let path = format!("/workflows/{}/tags", workflow.id);
        self.site.api("PUT", &path, Some(tags.into())).await;
    }
}

impl Deref for Lab {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

pub(super) fn code(text: &str) -> Value {
    let parameters = json!({"mode": "runOnceForAllItems", "jsCode": text});
    node("Code", "code", 2, &parameters)
}

pub(super) fn http_request(url: &str) -> Value {
    let parameters = json!({"url": url, "options": {}});
    node("HTTP Request", "httpRequest", 4, &parameters)
}

pub(super) fn sticky(text: &str) -> Value {
    node("Note", "stickyNote", 1, &json!({"content": text}))
}

fn node(name: &str, kind: &str, version: u32, parameters: &Value) -> Value {
    json!({
        "id": uuid::Uuid::new_v4().to_string(), "name": name, "type": format!("n8n-nodes-base.{kind}"),
        "typeVersion": version, "position": [0, 0], "parameters": parameters,
    })
}
