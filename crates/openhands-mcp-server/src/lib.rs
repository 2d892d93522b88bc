//! MCP server for OpenHands: hand a coding task to an agent and get the result back.
//!
//! A task is a conversation of the OpenHands *agent server* (`/api/conversations`), and a task id is
//! a conversation id. The agent server is the store: tags of the conversation hold what the caller asked for, and the
//! state of a task follows from what the agent server says. So tasks survive a restart of this server, and several
//! servers may work with one agent server.
//!
//! Behind the V1 app server (`/api/v1`) every conversation has its own agent server in a sandbox; the
//! app server starts it and knows its address.
//!
//! The modules, from the outside in. Each knows only those below it:
//! - `tools`, `resources` and `prompts`: the MCP interface;
//! - `task`: specification, creation, observation and reports of tasks;
//! - `service`: the shared state, and the principals of tasks;
//! - `runner`: the runs of tasks, and their limits in the background;
//! - `state`: the state of a task, from what the agent server says;
//! - `callback`: the URLs that may get results, and the tasks whose results they get;
//! - `workspace`: the directory of a task: name checks, set-up, changes;
//! - `named_urls`: options that name other services;
//! - `git`: the repositories of tasks, and the git hosts;
//! - `api`: the client of OpenHands, and the tags that this server keeps at conversations;
//! - `budget`: the limits of tasks.

mod api;
mod budget;
mod callback;
mod git;
mod named_urls;
mod options;
mod prompts;
mod resources;
mod runner;
mod service;
mod state;
mod task;
mod tools;
mod workspace;

/// A call makes many small and short-lived allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::process::ExitCode;
use std::sync::Arc;

use mcp_core::server::{ChangeNotifier, Server};
use mcp_core::tool::ToolError;
use mcp_serve::{Checkup, Product, Service};

use crate::options::Options;
use crate::service::OpenHands;

/// Sent to the model with the tools.
const INSTRUCTIONS: &str = "run_task gives a whole coding task to an agent with its own shell and files: describe \
     the goal, the context and when it is done. If the answer is `running` or `queued`, call \
     wait_task with its task_id instead of starting the task again. Correct or continue a \
     task with send_message, and check its work with get_task_changes.";

/// The `main` of the program. `Product::run` is generic: it is compiled here, once with all that it calls, and not
/// again in `main.rs`.
pub fn main() -> ExitCode {
    product().run()
}

/// The OpenHands server.
fn product() -> Product<OpenHands, Options> {
    Product::with_service(
        "openhands-mcp-server",
        env!("CARGO_PKG_VERSION"),
        "OpenHands tasks: give coding work to an agent and get the result",
        OpenHands::new,
    )
    .instructions(INSTRUCTIONS)
    .port(3457)
    .tools(|_| tools::all())
    .resources(resources::all())
    .prompts(prompts::all())
}

impl Service for OpenHands {
    async fn probe(&self) -> Result<(), ToolError> {
        Ok(self.servers.check().await?)
    }

    async fn check(self: Arc<Self>, _: Arc<Server>) -> Checkup {
        let asked = async {
            self.probe().await?;
            let service = self.servers.describe().await?;
            Ok(format!("{service} answers and accepts the key"))
        };
        Checkup::of(asked.await)
    }

    async fn run(self: Arc<Self>, server: Arc<Server>) {
        let started = (server.call_timeout(), server.is_read_only());
        self.started.get_or_init(|| started);
        let deliver = async {
            // A delivery is kept in a tag.
            if !server.is_read_only() {
                task::deliver_results(&self).await;
            }
        };
        tokio::join!(
            self.runner.enforce_limits(),
            resources::announce_changes(&self),
            deliver
        );
    }

    fn changes(&self) -> Option<ChangeNotifier> {
        Some(self.changes.clone())
    }
}
