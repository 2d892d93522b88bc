//! MCP server for OpenHands; see the library for how it works.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcp_serve::run::<openhands_mcp_server::OpenHandsServer>()
}
