//! `n8n-mcp-server`: n8n workflows as MCP tools.

use std::process::ExitCode;

fn main() -> ExitCode {
    n8n_mcp_server::main()
}
