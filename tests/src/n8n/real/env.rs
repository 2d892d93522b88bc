//! A server in front of the real n8n, with a client after its handshake.

use std::ops::Deref;

use mcp_client::{Client, ClientInfo, Endpoint, EraChoice, Handler};

use super::*;

/// Derefs to the n8n; `done` and `refused` take it as a client.
pub(super) struct Env {
    n8n: Instance,
    pub(super) server: Server,
    pub(super) client: Client,
}

impl Env {
    /// With all toolsets and both of n8n's tokens; `None` if there is no n8n.
    pub(super) async fn full() -> Option<Self> {
        Self::with(&["--toolsets", "all"]).await
    }

    /// Without the token of n8n's MCP server: triggers are started through their URLs only.
    pub(super) async fn urls() -> Option<Self> {
        let n8n = Instance::new()?;
        let (args, env) = (["--toolsets", "all"], n8n.env_without_mcp());
        let server = Box::pin(Server::with_args(SERVER, &args, &env)).await;
        Some(Self::connected(server, n8n).await)
    }

    pub(super) async fn with(args: &[&str]) -> Option<Self> {
        let n8n = Instance::new()?;
        let server = Box::pin(Server::with_args(SERVER, args, &n8n.env())).await;
        Some(Self::connected(server, n8n).await)
    }

    async fn connected(server: Server, n8n: Instance) -> Self {
        let client = Box::pin(server.client()).await;
        Self {
            n8n,
            server,
            client,
        }
    }

    /// Another client of the server, with these capabilities and this handler.
    pub(super) async fn connect(
        &self,
        era: EraChoice,
        capabilities: Value,
        handler: Option<Arc<dyn Handler>>,
    ) -> Client {
        let builder = Client::builder().era(era);
        let builder = match handler {
            Some(handler) => builder.handler(handler),
            None => builder,
        };
        let client = builder.http(Endpoint::new(&self.server.url).unwrap());
        let client = client.unwrap();
        let us = ClientInfo::new("tests", "1").with_capabilities(capabilities);
        client.connect(&us).await.unwrap();
        client
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
