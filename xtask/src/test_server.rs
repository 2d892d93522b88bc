//! Starts our servers on free ports for suites and clients of others, the fixture server above all.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::layout::Layout;
use crate::process::{Process, Program};

pub(crate) const FIXTURE: &str = "mcp-conformance";

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The prefixes of variables that may configure our servers on this machine.
const CONFIGURATION_PREFIXES: [&str; 4] = ["MCP_", "N8N_", "OPENHANDS_", "DOCKER_"];

/// Addresses of services where nothing listens. The n8n server needs a key to try at all.
pub(crate) const NO_SERVICES: [(&str, &str); 4] = [
    ("N8N_URL", "http://127.0.0.1:1"),
    ("N8N_API_KEY", "none"),
    ("OPENHANDS_URL", "http://127.0.0.1:1"),
    ("DOCKER_HOST", "tcp://127.0.0.1:1"),
];

/// A server that listens on a port of loopback. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct RunningServer {
    pub(crate) port: u16,
    pub(crate) process: Process,
}

pub(crate) fn binary(layout: &Layout) -> PathBuf {
    layout.binaries(false).join(FIXTURE)
}

/// Starts one of our built servers on a free port, configured only by these variables.
pub(crate) fn start(
    layout: &Layout,
    server: &str,
    log: &str,
    env: &[(&str, &str)],
) -> anyhow::Result<RunningServer> {
    let program = Program::new(layout.binaries(false).join(server))?.words("--port 0 --log info");
    // Its sessions need not survive it.
    let own = [("MCP_SESSION_KEY", server)];
    let program = unconfigured(program).envs(own).envs(env.iter().copied());
    listen(layout, program, &layout.fresh_log(log)?, listens_on)
}

/// Starts a program and waits until `listens_on` finds its port in its log.
pub(crate) fn listen(
    layout: &Layout,
    program: Program,
    log: &Path,
    listens_on: impl Fn(&str) -> Option<u16>,
) -> anyhow::Result<RunningServer> {
    let mut process = program.log_to(log)?.spawn()?;
    let mut port = None;
    layout.shutdown.wait_until(START_TIMEOUT, || {
        port = listens_on(&fs::read_to_string(log).unwrap_or_default());
        port.is_some() || process.ended()
    });
    let port = port.with_context(|| format!("it did not start: {}", layout.shown(log)))?;
    Ok(RunningServer { port, process })
}

/// Removes the variables that configure our servers, also those that the program starts.
pub(crate) fn unconfigured(program: Program) -> Program {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let prefixes = CONFIGURATION_PREFIXES.iter();
    program.without(names.filter(|name| prefixes.clone().any(|prefix| name.starts_with(prefix))))
}

/// Returns the port in the line that a server logs when it is ready.
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
        let cut = "INFO mcp_serve::run: listens on http://127.0.0.1:40";
        assert_eq!(listens_on(cut), None);
    }
}
