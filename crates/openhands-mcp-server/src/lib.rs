//! MCP server for OpenHands: hand a coding task to an agent and get the result back.
//!
//! A task is a conversation of the OpenHands *agent server* (`/api/conversations`), and a task id is
//! a conversation id. What a task depends on is kept there too, as tags of the conversation: after a
//! restart, or behind another replica, every task id still works and every promise holds.
//!
//! Behind the V1 app server (`/api/v1`) every conversation has an agent server of its own, in a
//! sandbox; the app server starts it and says where it is.
//!
//! From the outside in:
//! - `tools` — what callers can do, one file per tool; `report` — what they are told;
//! - `task`, `status` and `stop` — what a task is doing, or why it stands still, read from the agent
//!   server and judged;
//! - `steps` — its events in a line each; `changes` — what it did to its files;
//! - `order`, `prepare` and `start` — from the caller's words to a running task, `go_on`,
//!   `follow` and `permission` — on to its end;
//! - `sandboxed` — what is different behind the V1 app server;
//! - `resources` and `prompts` — what can be watched, and what people ask for by name;
//! - `ears` — hearing at once that something happens in a task;
//! - `watch` — what goes on without callers: the line of waiting tasks, and budgets;
//! - `mcp_servers` — what agents may call besides their own tools;
//! - `workspace`, `file_name`, `repository` — which names are let in;
//! - `notes` — what is kept at a conversation;
//! - `api` — the agent server's REST API and event sockets, as far as they are used.

mod api;
mod changes;
mod clock;
mod ears;
mod excerpt;
mod file_name;
mod follow;
mod go_on;
mod limits;
mod mcp_servers;
mod notes;
mod options;
mod order;
mod permission;
mod prepare;
mod prompts;
mod report;
mod repository;
mod resources;
mod sandboxed;
mod service;
mod start;
mod status;
mod steps;
mod stop;
mod task;
mod task_id;
#[cfg(test)]
mod tests;
mod tools;
mod watch;
mod workspace;

pub use options::Options;
pub use service::OpenHands;

use mcp_core::prompt::PromptSet;
use mcp_core::resource::ResourceSet;
use mcp_core::tool::Toolset;
use mcp_serve::Product;

/// The OpenHands server.
pub struct OpenHandsServer;

impl Product for OpenHandsServer {
    const NAME: &'static str = "openhands-mcp-server";
    const DESCRIPTION: &'static str =
        "OpenHands tasks: hand coding work to an agent and get the result";
    const PORT: u16 = 3457;
    type Options = Options;
    type Service = OpenHands;

    fn tools(_: &Options) -> Toolset<OpenHands> {
        tools::all()
    }

    fn resources() -> ResourceSet<OpenHands> {
        resources::all()
    }

    fn prompts() -> PromptSet<OpenHands> {
        prompts::all()
    }

    fn connect(options: Options) -> anyhow::Result<OpenHands> {
        OpenHands::new(options)
    }
}
