//! `mcp-gateway`: every MCP server behind one endpoint.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcp_gateway::main()
}
