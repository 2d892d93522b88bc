//! Starts our servers on free ports for suites and clients of others, the fixture server above all, and nginx.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::install::debian::{self, DebianPackages};
use crate::instance::clear_dir;
use crate::process::{Process, Program};
use crate::servers::Gateway;
use crate::{layout, shutdown};

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
pub(crate) struct RunningServer {
    pub(crate) port: u16,
    pub(crate) process: Process,
}

pub(crate) fn binary() -> PathBuf {
    layout::binaries(false).join(FIXTURE)
}

/// Starts one of our built servers on a free port, configured only by these variables.
pub(crate) fn start(server: &str, log: &str, env: &[(&str, &str)]) -> Result<RunningServer> {
    let program = Program::new(layout::binaries(false).join(server)).words("--port 0 --log info");
    // Its sessions need not survive it.
    let own = [("MCP_SESSION_KEY", server)];
    launch(log, program, &[&own, env].concat())
}

pub(crate) fn launch(log: &str, program: Program, env: &[(&str, &str)]) -> Result<RunningServer> {
    listen(
        log,
        unconfigured(program).envs(env.iter().copied()),
        |output| {
            let (_, rest) = output.split_once("listens on http://127.0.0.1:")?;
            rest.split_once("/mcp")?.0.parse().ok()
        },
    )
}

/// Starts a gateway with this file; `events` is its event log.
pub(crate) fn start_gateway(log: &str, config: &str, events: &str) -> Result<RunningServer> {
    let file = layout::backends().join(format!("{log}.toml"));
    fs::write(&file, config)?;
    let env = [
        ("MCP_GATEWAY_CONFIG", &*file.to_string_lossy()),
        ("MCP_GATEWAY_EVENTS", events),
    ];
    start(Gateway::PROGRAM, log, &env)
}

/// Starts a program and waits until `listens_on` finds its port in its log.
fn listen(
    log: &str,
    program: Program,
    listens_on: impl Fn(&str) -> Option<u16>,
) -> Result<RunningServer> {
    let log = layout::fresh_log(log)?;
    let mut process = program.log_to(&log)?.spawn()?;
    let mut port = None;
    shutdown::wait_until(START_TIMEOUT, || {
        port = listens_on(&fs::read_to_string(&log).unwrap_or_default());
        port.is_some() || process.ended()
    });
    let port = port.with_context(|| format!("it did not start: {}", layout::shown(&log)))?;
    Ok(RunningServer { port, process })
}

/// Removes the variables that configure our servers, also those that the program starts.
pub(crate) fn unconfigured(program: Program) -> Program {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let prefixes = CONFIGURATION_PREFIXES.iter();
    program.without(names.filter(|name| prefixes.clone().any(|prefix| name.starts_with(prefix))))
}

const NGINX: DebianPackages = DebianPackages("nginx", "", "nginx");

/// Starts nginx, the installed one or Debian's, with this configuration, and waits until it listens on the port.
/// `program` makes the program of its file.
pub(crate) fn start_nginx(
    name: &str,
    config: &str,
    port: u16,
    program: impl FnOnce(PathBuf) -> Program,
) -> Result<RunningServer> {
    let dir = layout::backends().join(name);
    clear_dir(&dir)?;
    let file = dir.join("nginx.conf");
    fs::write(&file, config)?;
    let (nginx, libraries) = debian::installed_or(&NGINX, "nginx", "usr/sbin/nginx")?;
    let nginx = program(nginx)
        .words("-e stderr")
        .option("-p", dir)
        .option("-c", file)
        .envs(libraries);
    let connects = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
    listen(name, nginx, |_| connects().then_some(port))
}
