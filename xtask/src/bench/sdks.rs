//! The official SDKs as peers: the same tool, under the same load. That for Rust is built here, those
//! for TypeScript and Python are there where `cargo xtask test` has installed them.

use std::ffi::OsString;
use std::fs;

use anyhow::{bail, ensure};

use super::load::{BOTH, ECHO, Load, VERSION};
use super::note;
use super::peer::{Bench, Cpu, Peer};
use super::sample::{Figure, Limit, Row, compare};
use crate::cargo;
use crate::fixture;

const ITEMS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_items","arguments":{}}}"#;

/// The figures beside rmcp: connections, and what is measured there.
const BESIDE_RMCP: [(u32, &str, &str, Limit); 3] = [
    (32, "CPU µs", "cpu_us", Limit::AtMost(0.35)),
    (256, "calls/s", "per_second", Limit::AtLeast(4.0)),
    // What the slowest hundredth takes.
    (256, "p99 µs", "p99_us", Limit::AtMost(1.0 / 3.0)),
];

/// The most of rmcp's CPU time of a large result.
const MOST_CPU_OF_ITEMS: Limit = Limit::AtMost(0.75);

/// The most of the CPU time per answer of the other SDKs.
const MOST_CPU: Limit = Limit::AtMost(0.04);

/// The other SDKs: their names, their folders of `tests/clients`, and the scripts there.
const SDKS: [(&str, &str, &str); 2] = [
    ("TypeScript", "typescript", "bench.mjs"),
    ("Python", "python", "bench.py"),
];

/// Returns the echo that another SDK answers.
fn echo() -> Load {
    let load = Load::new("http", ECHO).with("--header", BOTH);
    load.with("--header", VERSION)
        .with("--expect", "hello hello")
}

/// Measures beside the SDK for Rust; an error where it cannot be built or does not answer.
pub(super) fn rmcp(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let target = bench.layout.backends().join("bench-rmcp");
    let build = "build --release --locked --manifest-path tests/bench/rmcp/Cargo.toml";
    let env = [("CARGO_TARGET_DIR", &*target.to_string_lossy())];
    if !cargo::run(bench.layout, build, &env)? {
        bail!("it could not be built");
    }
    let rmcp = bench.program(Cpu::Own, target.join("release/bench-rmcp"))?;
    let rmcp = bench.start(Cpu::Own, rmcp)?;
    let ours = bench.ours(Cpu::Own)?;
    let mut rows = Vec::new();
    for (connections, what, field, limit) in BESIDE_RMCP {
        let own = Load::echo().with("--connections", connections);
        let other = echo().with("--connections", connections);
        let pairs = compare(|| ours.load(bench, &own), || rmcp.load(bench, &other))?;
        rows.push(pairs.row(&Figure {
            work: &format!("echo beside rmcp, {connections} connections, {what}"),
            field,
            digits: 1,
            beside: "rmcp",
            limit,
        }));
    }
    rows.push(items(bench, &rmcp)?);
    Ok(rows)
}

/// Measures a result of 50 items, which is mostly the tool's own work.
fn items(bench: &Bench<'_>, rmcp: &Peer) -> anyhow::Result<Row> {
    let ours = bench.server("")?;
    let load = Load::new("http", ITEMS).with("--connections", 32);
    let load = load.with("--header", VERSION).with("--header", BOTH);
    let load = load.with("--expect", "item number 49");
    let pairs = compare(|| ours.load(bench, &load), || rmcp.load(bench, &load))?;
    let bytes = pairs.sample("bytes");
    let (own, other) = (bytes.ours, bytes.floor);
    let is_alike = (0.9..1.1).contains(&bytes.ratio);
    ensure!(is_alike, "the results differ: {own} and {other} bytes");
    Ok(pairs.row(&Figure {
        work: "50 items beside rmcp, 32 connections, CPU µs",
        field: "cpu_us",
        digits: 1,
        beside: "rmcp",
        limit: MOST_CPU_OF_ITEMS,
    }))
}

/// Measures beside each of the others; a line for one that is not installed.
pub(super) fn rows(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, folder, script) in SDKS {
        let Some(theirs) = start(bench, folder, script)? else {
            note(format_args!(
                "the {name} SDK is not installed: cargo xtask test does that"
            ));
            continue;
        };
        let ours = bench.ours(Cpu::Own)?;
        let (own, other) = (Load::echo(), echo());
        let [own, other] = [own, other].map(|load| load.with("--connections", 32));
        let pairs = compare(|| ours.load(bench, &own), || theirs.load(bench, &other))?;
        rows.push(pairs.row(&Figure {
            work: &format!("echo beside the {name} SDK, 32 connections, CPU µs"),
            field: "cpu_us",
            digits: 1,
            beside: name,
            limit: MOST_CPU,
        }));
    }
    Ok(rows)
}

fn start(bench: &Bench<'_>, folder: &str, script: &str) -> anyhow::Result<Option<Peer>> {
    let installed = bench.layout.backends().join("clients").join(folder);
    let python = installed.join("bin/python");
    let program = if installed.join("node_modules").exists() {
        OsString::from("node")
    } else if python.exists() {
        python.into()
    } else {
        return Ok(None);
    };
    // It has to lie beside what it imports.
    let source = bench.layout.root.join("tests/clients").join(folder);
    let file = installed.join(script);
    fs::copy(source.join(script), &file)?;
    let program = bench.program(Cpu::Own, program)?.args([file]);
    bench
        .launch(Cpu::Own, program, fixture::listens_on)
        .map(Some)
}
