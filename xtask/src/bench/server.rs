//! Starts the servers to measure, each with one thread on one processor, and the load on another.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::http::Client;
use crate::install::debian::{self, DebianPackages};
use crate::instance::{clear_dir, free_port};
use crate::layout::{self, on_path};
use crate::process::Program;
use crate::servers::{self, Gateway};
use crate::test_server::{self, FIXTURE, RunningServer};
use crate::{checks, shutdown};

const TOKEN: &str = "bench-with-a-token";

/// The headers of each request. Some servers refuse clients that do not accept both types.
pub(super) const HEADERS: [(&str, &str); 2] = [
    ("Authorization", "Bearer bench-with-a-token"),
    ("Accept", "application/json, text/event-stream"),
];

/// The time in which the gateway must reach its backend.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// nginx's own defaults, except for settings whose cost a real proxy would not pay: connections to the
/// backend are kept, and are not closed for their age. One process, whose CPU time is that of the server.
const NGINX_CONFIG: &str = include_str!("nginx.conf");

const WRK: DebianPackages = DebianPackages("wrk", "", "wrk");

/// The processors of a server, and of the load and the servers behind a proxy: neither takes time from the other, and a
/// measurement depends less on the scheduler.
pub(super) const SERVER: &str = "0";
pub(super) const LOAD: &str = "1";

/// Starts our fixture server, which checks a token, on this processor.
pub(super) fn fixture(cpu: &str) -> Result<RunningServer> {
    let limits = "--connection-limit 2000 --stream-limit 2000";
    let options = format!("--token {TOKEN} --port 0 {limits}");
    let server = program(cpu, binary(FIXTURE)).words(&options);
    launch("bench-fixture", server)
}

pub(super) fn hyper() -> Result<RunningServer> {
    launch("bench-hyper", program(SERVER, binary("bench-floor")))
}

/// Builds and starts the echo tool on the official Rust SDK.
pub(super) fn rmcp() -> Result<RunningServer> {
    let target = layout::backends().join("bench-rmcp");
    let build = "build --release --locked --manifest-path tests/bench/rmcp/Cargo.toml";
    checks::cargo(build, &[("CARGO_TARGET_DIR", &target.to_string_lossy())])?;
    let server = program(SERVER, target.join("release/bench-rmcp"));
    launch("bench-rmcp", server)
}

/// Starts nginx as a plain reverse proxy in front of this server of ours: the installed one, or Debian's.
pub(super) fn nginx(backend: &RunningServer) -> Result<RunningServer> {
    let port = free_port(0)?;
    let config = NGINX_CONFIG.replace("BACKEND", &backend.port.to_string());
    let config = config.replace("PORT", &port.to_string());
    test_server::start_nginx("bench-nginx", &config, port, |file| program(SERVER, file))
}

/// Starts the gateway in front of this server of ours. Other than nginx, which only passes bytes on, it does all its
/// work: it checks a token and every message, and writes every call into its event log, a SQLite file.
pub(super) fn gateway(backend: &RunningServer) -> Result<RunningServer> {
    let dir = layout::backends().join("bench");
    clear_dir(&dir)?;
    let (file, url) = (dir.join("gateway.toml"), servers::url(backend.port));
    let fixture = format!("url = \"{url}\"\ntoken = \"{TOKEN}\"\nbare = true\n");
    fs::write(&file, format!("[backends.fixture]\n{fixture}"))?;
    let gateway = program(SERVER, binary(Gateway::PROGRAM))
        .option("--config", file)
        .option("--events", dir.join("events.db"))
        .words(&format!("--token {TOKEN} --port 0"));
    let gateway = launch("bench-gateway", gateway)?;
    // Its backend needs a moment more.
    let client = client(&gateway);
    let is_ready = shutdown::wait_until(START_TIMEOUT, || client.is_up("/readyz"));
    ensure!(is_ready, "the gateway does not reach its backend");
    Ok(gateway)
}

/// Returns wrk, the installed one or Debian's.
pub(super) fn wrk() -> Result<Program> {
    let (wrk, libraries) = debian::installed_or(&WRK, "wrk", "usr/bin/wrk")?;
    Ok(program(LOAD, wrk).envs(libraries))
}

pub(super) fn binary(name: &str) -> PathBuf {
    layout::binaries(true).join(name)
}

/// Returns a program that stays on a processor, if there is another one.
fn program(cpu: &str, program: PathBuf) -> Program {
    let has_one_cpu = thread::available_parallelism().is_ok_and(|count| count.get() < 2);
    match on_path("taskset").filter(|_| !has_one_cpu) {
        Some(taskset) => Program::new(taskset)
            .option("--cpu-list", cpu)
            .args([program]),
        None => Program::new(program),
    }
}

fn launch(log: &str, program: Program) -> Result<RunningServer> {
    let env = [("MCP_SESSION_KEY", "bench"), ("TOKIO_WORKER_THREADS", "1")];
    test_server::launch(log, program, &env)
}

/// Returns a client with the headers that every server here takes.
pub(super) fn client(server: &RunningServer) -> Client {
    let headers = HEADERS.map(|(name, value)| (name, value.to_owned()));
    Client::at(server.port, START_TIMEOUT).with_all(headers)
}
