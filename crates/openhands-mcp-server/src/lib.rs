//! MCP server for OpenHands: hand a coding task to an agent and get the result back.
//!
//! A task is a conversation of the OpenHands *agent server* (`/api/conversations`), and a task id is
//! a conversation id. What a task depends on is kept there too, as tags of the conversation: after a
//! restart, or behind another replica, every task id still works and every promise holds.
//!
//! Behind the V1 app server (`/api/v1`) every conversation has an agent server of its own, in a
//! sandbox; the app server starts it and says where it is.
//!
//! From the outside in; a room knows only those below it:
//! - `tools`, `resources` and `prompts` — what callers can do, watch, and ask for by name;
//! - `task` — from the caller's words to a running task and to the report of its end;
//! - `service` — the state that they share;
//! - `scheduler` — the queue of waiting tasks, and budgets, without any caller;
//! - `workspace` — the directory of a task: names that are let in, set-up, changes;
//! - `events` — hearing of events at once, and telling each in one line;
//! - `tags` — what is kept at a conversation; `budget` — what a task may use up;
//! - `api` — the agent server's REST API and event sockets, as far as they are used.

mod api;
mod budget;
mod events;
mod options;
mod prompts;
mod resources;
mod scheduler;
mod service;
mod tags;
mod task;
#[cfg(test)]
mod tests;
mod tools;
mod workspace;

pub use options::Options;
pub use service::OpenHands;

use std::sync::Arc;

use mcp_core::server::{ChangeNotifier, Server};
use mcp_core::tool::ToolError;
use mcp_serve::{Product, Service};

/// The OpenHands server.
pub fn product() -> Product<OpenHands, Options> {
    Product::with_service(
        "openhands-mcp-server",
        env!("CARGO_PKG_VERSION"),
        "OpenHands tasks: hand coding work to an agent and get the result",
        OpenHands::new,
    )
    .port(3457)
    .tools(|_| tools::all())
    .resources(resources::all())
    .prompts(prompts::all())
}

impl Service for OpenHands {
    async fn probe(&self) -> Result<(), ToolError> {
        Ok(self.servers.check().await?)
    }

    async fn run(self: Arc<Self>, _: Arc<Server>) {
        tokio::join!(self.scheduler.run(), resources::announce_changes(&self));
    }

    fn changes(&self) -> Option<ChangeNotifier> {
        Some(self.changes.clone())
    }
}
