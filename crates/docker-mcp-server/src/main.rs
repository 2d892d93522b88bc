//! MCP server for Docker containers.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcp_serve::run::<docker_mcp_server::DockerServer>()
}
