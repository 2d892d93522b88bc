//! The gateway beside nginx as a plain reverse proxy, both in front of the same server, and beside
//! itself with that server as a child.
//!
//! The gateway does all that it does in use: it asks for a token, checks what it passes on, and
//! writes every call into its event log, a SQLite file. nginx does nothing but pass on.

use std::fs;
use std::time::Duration;

use anyhow::ensure;

use super::nginx;
use super::peer::{Bench, Core, Peer, TOKEN};
use super::rows::{ECHO, ECHO_ANSWER, JSON, Row};
use super::sample::{Pairs, Sample, compare};
use crate::gateway::SERVER;
use crate::layout::create_dir;

/// Of nginx's, at one connection.
const MOST_LATENCY: f64 = 1.5;
/// Of nginx's, at many.
const LEAST_RATE: f64 = 0.6;
const MANY: [&str; 2] = ["32", "64"];

/// The rows, and why those beside nginx are missing, where they are.
pub(super) fn rows(bench: &Bench<'_>) -> anyhow::Result<(Vec<Row>, Option<String>)> {
    let (mut rows, mut missing) = (Vec::new(), None);
    match beside_nginx(bench)? {
        Ok(found) => rows.extend(found),
        Err(reason) => missing = Some(reason),
    }
    rows.extend(child_beside_http(bench)?);
    Ok((rows, missing))
}

/// Both on one processor, as what nginx here can use; the backend shares the other with the load. The
/// inner error says why there is no nginx.
fn beside_nginx(bench: &Bench<'_>) -> anyhow::Result<Result<Vec<Row>, String>> {
    let backend = bench.ours(Core::Load)?;
    let nginx = match nginx::start(bench, backend.port) {
        Ok(nginx) => nginx,
        Err(reason) => return Ok(Err(format!("{reason:#}"))),
    };
    let gateway = start(bench, "http", &over_http(&backend), Core::Own)?;
    let alone = echoes(bench, &gateway, &nginx, "1")?;
    let latency = alone.sample("p50_us");
    let target = format!("at most {MOST_LATENCY} × nginx");
    let good = latency.ratio <= MOST_LATENCY;
    let work = "gateway, 1 connection, median µs";
    let mut rows = vec![shown(&latency, "nginx", work, target, good).with_p99(&alone)];
    for connections in MANY {
        let pairs = echoes(bench, &gateway, &nginx, connections)?;
        let work = |what| format!("gateway, {connections} connections, {what}");
        let target = format!("at least {LEAST_RATE} × nginx");
        let rate = pairs.sample("per_second");
        let good = rate.ratio >= LEAST_RATE;
        let calls = work("calls/s");
        rows.push(shown(&rate, "nginx", &calls, target, good).with_p99(&pairs));
        let (cpu, work) = (pairs.sample("cpu_us"), work("CPU µs per call"));
        rows.push(shown(&cpu, "nginx", &work, String::new(), true));
    }
    Ok(Ok(rows))
}

/// A child has to run somewhere, too: here nobody is kept on a processor.
fn child_beside_http(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let backend = bench.ours(Core::Any)?;
    let http = start(bench, "http", &over_http(&backend), Core::Any)?;
    let child = bench.path("mcp-conformance");
    let command = format!("command = [\"{child}\", \"--stdio\", \"--log\", \"error\"]");
    let stdio = start(bench, "stdio", &command, Core::Any)?;
    let mut rows = Vec::new();
    for connections in ["1", MANY[0], MANY[1]] {
        let pairs = echoes(bench, &stdio, &http, connections)?;
        let plural = if connections == "1" { "" } else { "s" };
        let work = format!("gateway, child, {connections} connection{plural}, calls/s");
        let target = "at least as over HTTP".to_owned();
        let rate = pairs.sample("per_second");
        let good = rate.ratio >= 1.0;
        rows.push(shown(&rate, "HTTP", &work, target, good).with_p99(&pairs));
    }
    Ok(rows)
}

fn over_http(backend: &Peer) -> String {
    let port = backend.port;
    format!("url = \"http://127.0.0.1:{port}/mcp\"\ntoken = \"{TOKEN}\"")
}

fn shown(sample: &Sample, beside: &str, work: &str, target: String, good: bool) -> Row {
    Row::judged(work, target, good)
        .with(
            format!("{:.0}", sample.ours),
            format!("{:.0} ({beside})", sample.floor),
        )
        .with_ratio(sample.ratio)
}

/// The same calls through both, in turns.
fn echoes(
    bench: &Bench<'_>,
    ours: &Peer,
    other: &Peer,
    connections: &str,
) -> anyhow::Result<Pairs> {
    let load = ["http", "--header", JSON, "--body", ECHO];
    let rest = ["--expect", ECHO_ANSWER, "--connections", connections];
    let load = [&load[..], &rest].concat();
    compare(|| ours.load(bench, &load), || other.load(bench, &load))
}

/// A gateway in front of one backend, whose tools keep their names.
fn start(bench: &Bench<'_>, name: &str, backend: &str, core: Core) -> anyhow::Result<Peer> {
    let dir = bench.layout.backends().join("bench").join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    create_dir(&dir)?;
    let file = dir.join("gateway.toml");
    fs::write(
        &file,
        format!("[backends.fixture]\n{backend}\nbare = true\n"),
    )?;
    let (file, events) = (file.to_string_lossy(), dir.join("events.db"));
    let args = ["--config", &file, "--events", &events.to_string_lossy()];
    let args = [&args[..], &["--token", TOKEN]].concat();
    let gateway = bench.start(&[bench.path(SERVER)], &args, core)?;
    // Its backend takes a moment more.
    let once = ["http", "--requests", "1", "--header", JSON, "--body", ECHO];
    let once = [&once[..], &["--expect", ECHO_ANSWER]].concat();
    let stop = &bench.layout.stop;
    let passes = stop.wait_until(Duration::from_secs(30), || {
        gateway.load(bench, &once).is_ok()
    });
    ensure!(passes, "the gateway does not reach its backend over {name}");
    Ok(gateway)
}
