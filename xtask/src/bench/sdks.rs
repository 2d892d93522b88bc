//! The official SDKs for TypeScript and Python as peers, where `cargo xtask test` has installed them.

use std::ffi::OsString;
use std::fs;

use super::peer::{Bench, Core, Peer};
use super::rmcp::{BOTH, VERSION};
use super::rows::{ECHO, JSON, Row};
use super::sample::compare;
use crate::fixture;

/// The most of their CPU time per answer.
const MOST_CPU: f64 = 0.04;
const SAID: &str = "hello hello";

/// An SDK: its name, its folder of `tests/clients`, and the script there.
const SDKS: [(&str, &str, &str); 2] = [
    ("TypeScript", "typescript", "bench.mjs"),
    ("Python", "python", "bench.py"),
];

/// A row for each of them; in place of one that is not installed its name.
pub(super) fn rows(bench: &Bench<'_>) -> anyhow::Result<Vec<Result<Row, &'static str>>> {
    let beside = |(name, folder, script)| {
        let Some(theirs) = start(bench, folder, script)? else {
            return Ok(Err(name));
        };
        let ours = bench.ours(Core::Own)?;
        let load = ["http", "--body", ECHO, "--connections", "32"];
        let load = [&load[..], &["--expect", SAID, "--header"]].concat();
        let pairs = compare(
            || ours.load(bench, &[&load[..], &[JSON]].concat()),
            || theirs.load(bench, &[&load[..], &[BOTH, "--header", VERSION]].concat()),
        )?;
        let cpu = pairs.sample("cpu_us");
        let work = format!("echo beside the {name} SDK, 32 connections, CPU µs");
        let target = format!("at most {MOST_CPU} × {name}");
        let row = Row::judged(&work, target, cpu.ratio <= MOST_CPU);
        let both = (
            format!("{:.1}", cpu.ours),
            format!("{:.0} ({name})", cpu.floor),
        );
        Ok(Ok(row
            .with(both.0, both.1)
            .with_ratio(cpu.ratio)
            .with_p99(&pairs)))
    };
    SDKS.into_iter().map(beside).collect()
}

fn start(bench: &Bench<'_>, folder: &str, script: &str) -> anyhow::Result<Option<Peer>> {
    let kit = bench.layout.backends().join("clients").join(folder);
    let python = kit.join("bin/python");
    let program = if kit.join("node_modules").exists() {
        OsString::from("node")
    } else if python.exists() {
        python.into()
    } else {
        return Ok(None);
    };
    // It has to lie beside what it imports.
    let source = bench.layout.root.join("tests/clients").join(folder);
    fs::copy(source.join(script), kit.join(script))?;
    let command = [program, kit.join(script).into()];
    bench
        .launch(&command, &[], Core::Own, fixture::listens_on)
        .map(Some)
}
