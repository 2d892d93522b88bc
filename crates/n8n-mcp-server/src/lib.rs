//! MCP server for [n8n](https://n8n.io): lists workflows and really runs them.
//!
//! n8n's public API cannot run a workflow by its id. So `run_workflow` reads the workflow, chooses a
//! trigger that this server can start (`start_method`), and starts it (`run`) through its production URL
//! or through n8n's built-in MCP server. The answer holds the id of the execution in n8n; this
//! server stores no state. What needs no n8n (workflows, their checks, the data of executions) is in the
//! crate `n8n-workflow`.
//!
//! * `service`: one n8n, with clients of its REST API (`api`), its `production_url`s and its
//!   `builtin_mcp` server.
//! * `start_method`: how this server can start a trigger.
//! * `run`: plan, start, find, follow. Its result is an `outcome`.
//! * `policy`: the operator's restrictions.
//! * `workflow_tools`: workflows that are tools themselves.
//! * `tools`, `resources`, `prompts`: the interface of the server.

mod api;
mod builtin_mcp;
mod outcome;
mod policy;
mod production_url;
mod prompts;
mod resources;
mod run;
mod service;
mod start_method;
mod tools;
mod workflow_tools;

use std::process::ExitCode;
use std::sync::Arc;

use mcp_core::server::{ChangeNotifier, Server};
use mcp_core::tool::ToolError;
use mcp_serve::{Checkup, Product, Service};

use crate::service::{N8n, Options};

/// A call makes many small and short-lived allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Sent to the model with the tools.
const INSTRUCTIONS: &str = "Workflows of one n8n; list_workflows shows them, and get_workflow how each can be run \
     and with which parameters. run_workflow waits for the end; if the answer is `running` or \
     `waiting`, ask get_execution for the result instead of running it again. Each workflow \
     with the tag for tools is also a tool of its own.";

/// The `main` of the program. `Product::run` is generic: it is compiled here, once with all that it calls, and not
/// again in `main.rs`.
pub fn main() -> ExitCode {
    product().run()
}

fn product() -> Product<N8n, Options> {
    Product::with_service(
        "n8n-mcp-server",
        env!("CARGO_PKG_VERSION"),
        "n8n workflows: list, inspect and run them",
        Options::connect,
    )
    .instructions(INSTRUCTIONS)
    .port(3456)
    .tools(|_| tools::all())
    .resources(resources::all())
    .prompts(prompts::all())
}

impl Service for N8n {
    /// 32,000 tokens: more than a page of 250 rows or the items of an execution have.
    const MAX_RESULT_BYTES: usize = 128_000;

    async fn probe(&self) -> Result<(), ToolError> {
        Ok(self.api.probe().await?)
    }

    async fn check(self: Arc<Self>, _: Arc<Server>) -> Checkup {
        let asked = self.probe().await;
        // Nothing more of its version is shown to a key.
        Checkup::of(asked.map(|()| "n8n 2 answers and accepts the key".to_owned()))
    }

    async fn run(self: Arc<Self>, server: Arc<Server>) {
        tokio::join!(
            workflow_tools::sync(&self, &server),
            resources::watch(&self)
        );
    }

    async fn ready(&self) {
        self.changes.wait_for_lists().await;
    }

    fn changes(&self) -> Option<ChangeNotifier> {
        Some(self.changes.clone())
    }
}
