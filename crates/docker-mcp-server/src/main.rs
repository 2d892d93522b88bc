//! MCP server for Docker containers.

use std::process::ExitCode;

fn main() -> ExitCode {
    docker_mcp_server::main()
}
