//! `mcp-gateway`: every MCP server behind one endpoint.

use std::process::ExitCode;

use mcp_client::reaper;
use mcp_gateway::explain;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let program = args.next();
    let mut args = args.peekable();
    if args.peek().is_some_and(|first| first == explain::COMMAND) {
        return explain::run(program.into_iter().chain(args.skip(1)));
    }
    // The gateway starts itself as the parent of a backend's process, to end that process when the
    // gateway is killed.
    if args.next().is_some_and(|first| first == reaper::ARGUMENT) {
        return reaper::run(args);
    }
    mcp_gateway::product().run()
}
