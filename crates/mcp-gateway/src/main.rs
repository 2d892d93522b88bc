//! `mcp-gateway`: every MCP server behind one endpoint.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // The reaper of a backend, which ends it when the gateway is gone.
    if args
        .next()
        .is_some_and(|first| first == mcp_client::reaper::ARGUMENT)
    {
        return mcp_client::reaper::run(args);
    }
    mcp_gateway::product().run()
}
