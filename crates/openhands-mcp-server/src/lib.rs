//! MCP server for OpenHands: hand a coding task to an agent and get the result back.
//!
//! A task is a conversation of the OpenHands *agent server* (`/api/conversations`), and a task id is
//! a conversation id. This server keeps nothing about tasks: after a restart, or behind another
//! replica, every task id still works.
//!
//! From the outside in:
//! - `tools` — what callers can do, one file per tool;
//! - `task` and `status` — what a task is doing, read from the agent server and judged;
//! - `start` and `follow` — from the caller's words to a running task, and on to its end;
//! - `workspace` — in which directory a task works, and which file names are let into it;
//! - `api` — the agent server's REST API, as far as it is used.

mod api;
mod excerpt;
mod follow;
mod options;
mod service;
mod start;
mod status;
mod task;
mod task_id;
#[cfg(test)]
mod tests;
mod tools;
mod workspace;

pub use options::Options;
pub use service::OpenHands;

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

    fn tools() -> Toolset<OpenHands> {
        tools::all()
    }

    fn connect(options: Options) -> anyhow::Result<OpenHands> {
        OpenHands::new(options)
    }
}
