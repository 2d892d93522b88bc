//! The gateway beside nginx as a plain reverse proxy, both in front of the same server, and beside
//! itself with that server as a child.
//!
//! The gateway does all that it does in use: it asks for a token, checks what it passes on, and
//! writes every call into its event log, a SQLite file. nginx does nothing but pass on.

use std::fmt::Display;
use std::fs;
use std::time::Duration;

use anyhow::ensure;

use super::nginx;
use super::peer::{Bench, Peer, TOKEN};
use super::rows::{ECHO, ECHO_ANSWER, JSON, Row};
use super::sample::{Pairs, compare};
use crate::gateway::SERVER;
use crate::layout::create_dir;

/// Of nginx's, at one connection.
const MOST_LATENCY: f64 = 1.5;
/// Of nginx's, at many.
const LEAST_RATE: f64 = 0.6;
const MANY: [&str; 2] = ["32", "64"];

/// What passes calls on to a backend.
struct Proxies {
    http: Peer,
    stdio: Peer,
    /// The server behind both `http` and nginx.
    _backend: Peer,
}

/// The rows, and why those beside nginx are missing, where they are.
pub(super) fn rows(bench: &Bench<'_>) -> anyhow::Result<(Vec<Row>, Option<String>)> {
    let backend = bench.ours()?;
    let nginx = nginx::start(bench, backend.port);
    let http = format!(
        "url = \"http://127.0.0.1:{}/mcp\"\ntoken = \"{TOKEN}\"",
        backend.port
    );
    let child = bench.path("mcp-conformance");
    let stdio = format!("command = [\"{child}\", \"--stdio\", \"--log\", \"error\"]");
    let proxies = Proxies {
        http: start(bench, "http", &http)?,
        stdio: start(bench, "stdio", &stdio)?,
        _backend: backend,
    };
    let mut rows = Vec::new();
    let missing = match nginx {
        Ok(nginx) => {
            rows.extend(proxies.beside_nginx(bench, &nginx)?);
            None
        }
        Err(reason) => Some(format!("{reason:#}")),
    };
    rows.extend(proxies.beside_each_other(bench)?);
    Ok((rows, missing))
}

impl Proxies {
    fn beside_nginx(&self, bench: &Bench<'_>, nginx: &Peer) -> anyhow::Result<Vec<Row>> {
        let alone = echoes(bench, &self.http, nginx, "1")?;
        let mut rows = vec![
            latency(&alone, "p50_us", "median", MOST_LATENCY),
            shown(&alone, "p99_us", "gateway, 1 connection, p99 µs"),
        ];
        for connections in MANY {
            let many = echoes(bench, &self.http, nginx, connections)?;
            let work = |what| format!("gateway, {connections} connections, {what}");
            let target = format!("at least {LEAST_RATE} × nginx");
            rows.push(rate(&many, &work("calls/s"), target, LEAST_RATE, "nginx"));
            rows.push(shown(&many, "p99_us", &work("p99 µs")));
            rows.push(shown(&many, "cpu_us", &work("CPU µs per call")));
        }
        Ok(rows)
    }

    fn beside_each_other(&self, bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for connections in ["1", MANY[0], MANY[1]] {
            let pairs = echoes(bench, &self.stdio, &self.http, connections)?;
            let plural = if connections == "1" { "" } else { "s" };
            let work = format!("gateway, child, {connections} connection{plural}, calls/s");
            rows.push(rate(&pairs, &work, "at least as over HTTP", 1.0, "HTTP"));
        }
        Ok(rows)
    }
}

fn latency(pairs: &Pairs, field: &str, what: &str, most: f64) -> Row {
    let sample = pairs.sample(field);
    let work = format!("gateway, 1 connection, {what} µs");
    Row::judged(
        &work,
        format!("at most {most} × nginx"),
        sample.ratio <= most,
    )
    .with(
        format!("{:.0}", sample.ours),
        format!("{:.0} (nginx)", sample.floor),
    )
    .with_ratio(sample.ratio)
}

fn rate(pairs: &Pairs, work: &str, target: impl Display, least: f64, beside: &str) -> Row {
    let sample = pairs.sample("per_second");
    Row::judged(work, target.to_string(), sample.ratio >= least)
        .with(
            format!("{:.0}", sample.ours),
            format!("{:.0} ({beside})", sample.floor),
        )
        .with_ratio(sample.ratio)
}

/// A figure that nothing is asked of.
fn shown(pairs: &Pairs, field: &str, work: &str) -> Row {
    let sample = pairs.sample(field);
    Row::judged(work, "", true)
        .with(
            format!("{:.0}", sample.ours),
            format!("{:.0} (nginx)", sample.floor),
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
fn start(bench: &Bench<'_>, name: &str, backend: &str) -> anyhow::Result<Peer> {
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
    let gateway = bench.start(&[bench.path(SERVER)], &args)?;
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
