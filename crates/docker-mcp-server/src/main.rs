//! MCP server for Docker containers.

use std::process::ExitCode;

use docker_mcp_server::{DockerServer, loses_nothing};

fn main() -> ExitCode {
    if loses_nothing() {
        mcp_serve::run::<DockerServer<false>>()
    } else {
        mcp_serve::run::<DockerServer>()
    }
}
