//! Our servers as programs on free ports, the fixture server first of all, for the suites and
//! clients of others.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use crate::chores;
use crate::layout::Layout;
use crate::process::{Process, Program};

const SERVER: &str = "mcp-conformance";

/// How the variables begin with which somebody may have configured our servers on this machine.
const FOREIGN: [&str; 4] = ["MCP_", "N8N_", "OPENHANDS_", "DOCKER_"];

/// Builds it; true when that succeeded.
pub(crate) fn build(layout: &Layout) -> anyhow::Result<bool> {
    let build = ["build", "--package", "tests", "--bin", SERVER];
    chores::cargo(layout, &build, &[])
}

/// The built program.
pub(crate) fn binary(layout: &Layout) -> PathBuf {
    layout.binaries(false).join(SERVER)
}

/// Starts the built server with a log of this name: the process and its free port on loopback.
pub(crate) fn start(layout: &Layout, log: &str) -> anyhow::Result<(Process, u16)> {
    start_server(layout, SERVER, log, &[])
}

/// The same for any of our servers, configured by nothing but these variables.
pub(crate) fn start_server(
    layout: &Layout,
    server: &str,
    log: &str,
    env: &[(&str, &str)],
) -> anyhow::Result<(Process, u16)> {
    let log = layout.fresh_log(log)?;
    let mut process = unconfigured(Program::new(layout.binaries(false).join(server))?)
        .args(["--port", "0", "--log", "info"])
        // Its sessions need not outlive it.
        .envs([("MCP_SESSION_KEY", server)])
        .envs(env.iter().copied())
        .log_to(&log)?
        .spawn()?;
    let mut port = None;
    layout.stop.wait_until(Duration::from_secs(10), || {
        port = fs::read_to_string(&log)
            .ok()
            .and_then(|log| listens_on(&log));
        port.is_some() || process.ended()
    });
    let port = port.with_context(|| format!("{server} did not start: {}", layout.shown(&log)))?;
    Ok((process, port))
}

/// The program without what configures our servers, also those that it starts itself.
pub(crate) fn unconfigured(program: Program) -> Program {
    std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| FOREIGN.iter().any(|prefix| name.starts_with(prefix)))
        .fold(program, |program, name| program.env_remove(&name))
}

/// The port in the line that a server writes once it can be reached.
pub(crate) fn listens_on(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once("listens on http://127.0.0.1:")?;
    let (port, _) = rest.split_once("/mcp")?;
    port.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_from_the_log() {
        let log = "INFO mcp_serve::run: mcp-conformance listens on http://127.0.0.1:40213/mcp\n";
        assert_eq!(listens_on(log), Some(40213));
        assert_eq!(
            listens_on("INFO mcp_serve::run: listens on http://127.0.0.1:40"),
            None
        );
    }
}
