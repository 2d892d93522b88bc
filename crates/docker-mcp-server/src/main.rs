//! MCP server for Docker containers.

fn main() -> std::process::ExitCode {
    mcp_serve::run::<docker_mcp_server::DockerServer>()
}
