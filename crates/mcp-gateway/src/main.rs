//! `mcp-gateway`: every MCP server behind one endpoint.

use std::process::ExitCode;

use mcp_client::reaper;

fn main() -> ExitCode {
    // The gateway starts itself as the parent of a backend's process, to end that process when the
    // gateway is killed.
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == reaper::ARGUMENT) {
        return reaper::run(args);
    }
    mcp_gateway::main()
}
