//! `cargo xtask bench`: measures the cost of a request, as ratios to a bare hyper server in the same
//! run and to other SDKs, and the cost of the gateway, as ratios to nginx. The load program and the
//! bare server are in `tests/bench`.

mod callgrind;
mod comparisons;
mod instructions;
mod peers;
mod plot;
mod profile;
mod row;
mod scale;
mod server;

use std::fs;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::Value;

use crate::args::Options;
use crate::cargo;
use crate::console::table;
use crate::install::{Unavailable, unavailable};
use crate::layout::Layout;
use crate::test_server::FIXTURE;

use row::{Limit, Row, compare, figure};
use server::{Bench, Cpu};

const BUILD: &str = "build --release --package tests --package mcp-gateway --bins";

/// Builds, measures and prints the table. Only instructions decide about the exit code, because other
/// work on the machine does not change them.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    let is_release = options.profile.as_deref() != Some("dev");
    // The programs of the test command, with the features that all packages together ask for.
    let build = if is_release { BUILD } else { cargo::BUILD };
    if !cargo::run(layout, build, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let bench = Bench::new(layout, is_release);
    if options.has("scale") {
        print_rows(&scale::measure(&bench)?);
        return Ok(ExitCode::SUCCESS);
    }
    let only_instructions = options.has("instructions");
    let mut rows = Vec::new();
    if !only_instructions {
        print_as!("bench", "machine load before: {}", machine_load());
        rows.extend(absolute(&bench)?);
        rows.extend(comparisons::measure(&bench)?);
        print_as!("bench", "machine load after: {}", machine_load());
    }
    let counted = match instructions::measure(&bench) {
        Err(error) if error.is::<Unavailable>() => {
            print_as!("bench", "instructions are not counted: {error:#}");
            Vec::new()
        }
        counted => counted?,
    };
    let is_missed = counted.iter().any(Row::is_missed);
    rows.extend(counted);
    print_rows(&rows);
    Ok(cargo::exit_code(!(only_instructions && is_missed)))
}

/// Counts the instructions of a call with the programs of a debug build, which have to be there.
///
/// # Errors
/// If one is above its limit. `Unavailable` without valgrind, and on other processors than those of the limits.
pub(crate) fn check_instructions(layout: &Layout) -> anyhow::Result<()> {
    if !cfg!(target_arch = "x86_64") {
        bail!(unavailable("its limits are for x86_64"));
    }
    let rows = instructions::measure(&Bench::new(layout, false))?;
    if rows.iter().any(Row::is_missed) {
        print_rows(&rows);
        bail!("a call takes more instructions than before");
    }
    Ok(())
}

fn print_rows(rows: &[Row]) {
    let cells: Vec<_> = [row::heading()]
        .into_iter()
        .chain(rows.iter().map(Row::cells))
        .collect();
    print_line!("\n{}", table(&cells));
}

fn machine_load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}

/// Measures ours alone, with the bare server as the floor of some figures.
fn absolute(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let mut rows = memory(bench)?;
    let (ours, floor) = (bench.binary(FIXTURE), bench.binary("bench-floor"));
    let run = |line: &str| bench.load(Cpu::Any, line, 0);
    let echo = "stdio --body ECHO --window 32 --millis 1000";
    let pairs = compare(
        || run(&format!("{echo} --expect OK -- {ours} --stdio --log error")),
        // It does not parse lines, it only counts them.
        || run(&format!("{echo} -- {floor} --stdio 150")),
    )?;
    let rate = pairs.sample("per_second");
    // The official Rust SDK reached 17,000 a second.
    let limit = Limit::AtLeast(170_000.0);
    let work = "stdio echo, window 32, per second";
    rows.push(Row::sampled(work, &rate, limit));
    let echo = "start --body ECHO --times 11 --header TOKEN";
    let ours = run(&format!("{echo} -- {ours} --token bench-with-a-token"))?;
    let floor = run(&format!("{echo} -- {floor}"))?;
    for (work, field, unit, most) in [
        ("start to the first answer, ms", "millis", 1.0, 10.0),
        ("idle memory, MiB", "memory_kib", 1024.0, 8.0),
    ] {
        let [ours, floor] = [&ours, &floor].map(|measured| figure(measured, field) / unit);
        let limit = Limit::AtMost(most);
        rows.push(Row::absolute(work, ours, Some(floor), limit));
    }
    Ok(rows)
}

/// Measures the memory of clients that never come back, and of open streams.
fn memory(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let grown = |measured: &Value| figure(measured, "grown_kib") / 1024.0;
    let initialize = "--header JSON --body INITIALIZE";
    let server = bench.fixture(Cpu::Any)?;
    let flood = |requests| {
        let load = "--connections 8 --millis 120000 --requests";
        server.load(bench, &format!("http {initialize} {load} {requests}"), 0)
    };
    flood(2_000)?;
    let flood = grown(&flood(100_000)?);
    let server = bench.fixture(Cpu::Any)?;
    let streams = server.load(bench, &format!("streams {initialize} --count 1000"), 0)?;
    let row = |work, grown, most| Row::absolute(work, grown, None, Limit::AtMost(most));
    Ok(vec![
        row("memory after 100,000 initialize, MiB", flood, 5.0),
        row("memory of 1,000 open streams, MiB", grown(&streams), 10.0),
    ])
}
