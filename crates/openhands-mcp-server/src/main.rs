//! MCP server for OpenHands; see the library for how it works.

use std::process::ExitCode;

fn main() -> ExitCode {
    openhands_mcp_server::main()
}
