//! The gateway beside nginx as a plain reverse proxy, both in front of the same server, and beside
//! itself with that server as a child.
//!
//! The gateway does all that it does in use: it asks for a token, checks what it passes on, and
//! writes every call into its event log, a SQLite file. nginx does nothing but pass on.

use std::fs;
use std::time::Duration;

use anyhow::ensure;

use super::nginx;
use super::peer::{Bench, Peer, TOKEN};
use super::rows::{ECHO, ECHO_ANSWER, JSON, Row};
use super::sample::{Pairs, Sample, compare};
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
        let latency = alone.sample("p50_us");
        let target = format!("at most {MOST_LATENCY} × nginx");
        let good = latency.ratio <= MOST_LATENCY;
        let work = "gateway, 1 connection, median µs";
        let mut rows = vec![shown(&latency, "nginx", work, target, good).with_p99(&alone)];
        for connections in MANY {
            let pairs = echoes(bench, &self.http, nginx, connections)?;
            let work = |what| format!("gateway, {connections} connections, {what}");
            let target = format!("at least {LEAST_RATE} × nginx");
            let rate = pairs.sample("per_second");
            let good = rate.ratio >= LEAST_RATE;
            let calls = work("calls/s");
            rows.push(shown(&rate, "nginx", &calls, target, good).with_p99(&pairs));
            let (cpu, work) = (pairs.sample("cpu_us"), work("CPU µs per call"));
            rows.push(shown(&cpu, "nginx", &work, String::new(), true));
        }
        Ok(rows)
    }

    fn beside_each_other(&self, bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for connections in ["1", MANY[0], MANY[1]] {
            let pairs = echoes(bench, &self.stdio, &self.http, connections)?;
            let plural = if connections == "1" { "" } else { "s" };
            let work = format!("gateway, child, {connections} connection{plural}, calls/s");
            let target = "at least as over HTTP".to_owned();
            let rate = pairs.sample("per_second");
            let good = rate.ratio >= 1.0;
            rows.push(shown(&rate, "HTTP", &work, target, good).with_p99(&pairs));
        }
        Ok(rows)
    }
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
