//! The gateway beside nginx as a plain reverse proxy, both in front of the same server, and beside
//! itself with that server as a child.
//!
//! The gateway does all that it does in use: it asks for a token, checks what it passes on, and
//! writes every call into its event log, a SQLite file. nginx does nothing but pass on.

use std::fs;
use std::time::Duration;

use anyhow::ensure;

use super::load::Load;
use super::nginx;
use super::peer::{Bench, Cpu, Peer, TOKEN};
use super::sample::{Figure, Limit, Pairs, Row, compare};
use crate::fixture::FIXTURE;
use crate::gateway::PROGRAM;
use crate::layout::create_dir;

/// The most of nginx's latency, at one connection.
const MOST_LATENCY: Limit = Limit::AtMost(1.5);
/// The least of its rate, at many.
const LEAST_RATE: Limit = Limit::AtLeast(0.6);
/// How long the gateway may take to reach its backend.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Measures both on one processor, as what nginx here can use; the backend shares the other with the
/// load.
///
/// # Errors
/// When there is no nginx, among others.
pub(super) fn beside_nginx(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let backend = bench.ours(Cpu::Load)?;
    let nginx = nginx::start(bench, backend.port)?;
    let gateway = start(bench, "http", &over_http(&backend), Cpu::Own)?;
    let mut rows = Vec::new();
    for (connections, work, field, limit) in [
        ("1 connection", "median µs", "p50_us", MOST_LATENCY),
        ("32 connections", "calls/s", "per_second", LEAST_RATE),
        ("32 connections", "CPU µs per call", "cpu_us", Limit::None),
        ("64 connections", "calls/s", "per_second", LEAST_RATE),
        ("64 connections", "CPU µs per call", "cpu_us", Limit::None),
    ] {
        let pairs = echoes(bench, &gateway, &nginx, connections)?;
        rows.push(pairs.row(&Figure {
            work: &format!("gateway, {connections}, {work}"),
            field,
            digits: 0,
            beside: "nginx",
            limit,
        }));
    }
    Ok(rows)
}

/// Measures a backend that is a child. That has to run somewhere, too: here nobody is kept on a
/// processor.
pub(super) fn child_beside_http(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let backend = bench.ours(Cpu::Any)?;
    let http = start(bench, "http", &over_http(&backend), Cpu::Any)?;
    let child = bench.binary(FIXTURE);
    let command = format!("command = [\"{child}\", \"--stdio\", \"--log\", \"error\"]");
    let stdio = start(bench, "stdio", &command, Cpu::Any)?;
    let row = |connections| {
        let pairs = echoes(bench, &stdio, &http, connections)?;
        Ok(pairs.row(&Figure {
            work: &format!("gateway, child, {connections}, calls/s"),
            field: "per_second",
            digits: 0,
            beside: "HTTP",
            limit: Limit::AtLeast(1.0),
        }))
    };
    let connections = ["1 connection", "32 connections", "64 connections"];
    connections.into_iter().map(row).collect()
}

fn over_http(backend: &Peer) -> String {
    let port = backend.port;
    format!("url = \"http://127.0.0.1:{port}/mcp\"\ntoken = \"{TOKEN}\"")
}

/// Sends the same calls through both, in turns; the number of connections is the first word.
fn echoes(
    bench: &Bench<'_>,
    ours: &Peer,
    other: &Peer,
    connections: &str,
) -> anyhow::Result<Pairs> {
    let (number, _) = connections.split_once(' ').unwrap_or((connections, ""));
    let load = Load::echo().with("--connections", number);
    compare(|| ours.load(bench, &load), || other.load(bench, &load))
}

/// Starts a gateway in front of one backend, whose tools keep their names.
fn start(bench: &Bench<'_>, name: &str, backend: &str, cpu: Cpu) -> anyhow::Result<Peer> {
    let dir = bench.layout.backends().join("bench").join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    create_dir(&dir)?;
    let file = dir.join("gateway.toml");
    let config = format!("[backends.fixture]\n{backend}\nbare = true\n");
    fs::write(&file, config)?;
    let gateway = bench
        .program(cpu, bench.binary(PROGRAM))?
        .args(["--config".as_ref(), file.as_os_str()])
        .args(["--events".as_ref(), dir.join("events.db").as_os_str()])
        .args(["--token", TOKEN]);
    let gateway = bench.start(cpu, gateway)?;
    // Its backend takes a moment more.
    let once = Load::echo().with("--requests", 1);
    let passes = bench
        .layout
        .stop
        .wait_until(START_TIMEOUT, || gateway.load(bench, &once).is_ok());
    ensure!(passes, "the gateway does not reach its backend over {name}");
    Ok(gateway)
}
