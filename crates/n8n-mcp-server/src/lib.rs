//! MCP server for [n8n](https://n8n.io): lists workflows and really runs them.
//!
//! n8n's public API cannot run a workflow by its id. So `run_workflow` reads the workflow, finds a
//! trigger that is open (`trigger`) and starts it the way that trigger is started (`run`): through
//! its production URL, or through n8n's built-in MCP server. Either way the answer holds the id of
//! the execution in n8n, which is the only state there is.
//!
//! * `service` — the n8n that all is about: its REST API as far as it is used here (`api`), its
//!   `production_url`s, its `builtin_mcp` server.
//! * `trigger` — pure: the triggers of a workflow, and the way to each.
//! * `run` — request, plan, start, watch.
//! * `workflow` — pure: a workflow's definition, changed and checked.
//! * `trace` — pure: what the nodes of an execution did, and why one failed.
//! * `risk` — pure: what in a workflow deserves a second look.
//! * `policy` — what the operator lets through.
//! * `workflow_tools` — workflows that are tools of their own.
//! * `tools`, `resources`, `prompts` — what the server offers.

mod api;
mod builtin_mcp;
mod id;
mod options;
mod pending;
mod policy;
mod production_url;
mod prompts;
mod resources;
mod risk;
mod run;
mod service;
mod tools;
mod trace;
mod trigger;
mod variant_name;
mod webhook_credentials;
mod workflow;
mod workflow_tools;

use std::sync::Arc;

use mcp_core::server::{ChangeNotifier, Server};
use mcp_core::tool::ToolError;
use mcp_serve::{Product, Service};

pub use crate::options::Options;
pub use crate::service::N8n;

/// The n8n server.
pub fn product() -> Product<N8n, Options> {
    Product::with_service(
        "n8n-mcp-server",
        env!("CARGO_PKG_VERSION"),
        "n8n workflows: list, inspect and really run them",
        Options::connect,
    )
    .port(3456)
    .tools(|_| tools::all())
    .resources(resources::all())
    .prompts(prompts::all())
}

impl Service for N8n {
    async fn probe(&self) -> Result<(), ToolError> {
        Ok(self.api.probe().await?)
    }

    async fn run(self: Arc<Self>, server: Arc<Server>) {
        tokio::join!(
            workflow_tools::keep_up(&self, &server),
            resources::watch(&self)
        );
    }

    fn changes(&self) -> Option<ChangeNotifier> {
        Some(self.changes.clone())
    }
}
