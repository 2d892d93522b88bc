//! The official Rust SDK as a peer: the same tool, under the same load.

use anyhow::{bail, ensure};

use super::peer::{Bench, Core, Peer, TOKEN};
use super::rows::{ECHO, ECHO_ANSWER, JSON, Row};
use super::sample::{Sample, compare};
use crate::chores;

/// It answers nobody who would not take both.
pub(super) const BOTH: &str = "Accept: application/json, text/event-stream";
pub(super) const VERSION: &str = "MCP-Protocol-Version: 2025-06-18";
const ITEMS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_items","arguments":{}}}"#;
const LAST_ITEM: &str = "item number 49";
/// The most of its CPU time per answer, at 32 connections …
const MOST_CPU: f64 = 0.35;
/// … the least of its answers per second, at 256 …
const LEAST_RATE: f64 = 4.0;
/// … the most of the CPU time of a large result …
const MOST_CPU_OF_ITEMS: f64 = 0.75;
/// … and the most of the time that its slowest hundredth takes there.
const MOST_WAIT: f64 = 1.0 / 3.0;

/// The rows; an error where it cannot be built or does not answer.
pub(super) fn rows(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let target = bench.layout.backends().join("bench-rmcp");
    let folder = target.to_string_lossy();
    let manifest = ["--manifest-path", "tests/bench/rmcp/Cargo.toml"];
    let build = ["build", "--release", "--locked", "--target-dir", &folder];
    if !chores::cargo(bench.layout, &[&build[..], &manifest].concat(), &[])? {
        bail!("it could not be built");
    }
    let program = target.join("release/bench-rmcp");
    let rmcp = bench.start(&[program.to_string_lossy().into_owned()], &[], Core::Own)?;
    let ours = bench.ours(Core::Own)?;
    let both = |connections| {
        let load = ["http", "--body", ECHO, "--connections", connections];
        let expect = ["--expect", ECHO_ANSWER];
        let load = |header| [&load[..], &expect, &["--header", header]].concat();
        let theirs = ["--header", VERSION];
        let theirs = [&load(BOTH)[..], &theirs].concat();
        compare(
            || ours.load(bench, &load(JSON)),
            || rmcp.load(bench, &theirs),
        )
    };
    let few = both("32")?;
    let many = both("256")?;
    let items = items(bench, &rmcp)?;
    let cpu = few.sample("cpu_us");
    let (rate, wait) = (many.sample("per_second"), many.sample("p99_us"));
    let target = |what: &str, limit: f64| format!("at {what} {limit:.2} × rmcp");
    Ok(vec![
        row(
            &cpu,
            "echo beside rmcp, 32 connections, CPU µs",
            target("most", MOST_CPU),
            cpu.ratio <= MOST_CPU,
        )
        .with_p99(&few),
        row(
            &rate,
            "echo beside rmcp, 256 connections, calls/s",
            target("least", LEAST_RATE),
            rate.ratio >= LEAST_RATE,
        )
        .with_p99(&many),
        row(
            &wait,
            "echo beside rmcp, 256 connections, p99 µs",
            target("most", MOST_WAIT),
            wait.ratio <= MOST_WAIT,
        ),
        items,
    ])
}

/// A result of 50 items, which is mostly the tool's own work.
fn items(bench: &Bench<'_>, rmcp: &Peer) -> anyhow::Result<Row> {
    let program = [bench.path("bench-server")];
    let ours = bench.start(&program, &["--token", TOKEN], Core::Own)?;
    let load = ["http", "--body", ITEMS, "--connections", "32"];
    let header = ["--header", VERSION, "--header", BOTH];
    let load = [&load[..], &["--expect", LAST_ITEM], &header].concat();
    let pairs = compare(|| ours.load(bench, &load), || rmcp.load(bench, &load))?;
    let cpu = pairs.sample("cpu_us");
    let bytes = pairs.sample("bytes");
    let alike = (0.9..1.1).contains(&bytes.ratio);
    ensure!(
        alike,
        "the results differ: {} and {} bytes",
        bytes.ours,
        bytes.floor
    );
    let work = "50 items beside rmcp, 32 connections, CPU µs";
    let target = format!("at most {MOST_CPU_OF_ITEMS:.2} × rmcp");
    Ok(row(&cpu, work, target, cpu.ratio <= MOST_CPU_OF_ITEMS).with_p99(&pairs))
}

fn row(sample: &Sample, work: &str, target: String, good: bool) -> Row {
    Row::judged(work, target, good)
        .with(
            format!("{:.1}", sample.ours),
            format!("{:.1} (rmcp)", sample.floor),
        )
        .with_ratio(sample.ratio)
}
