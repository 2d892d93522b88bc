//! The part `bench` of `cargo xtask nightly`: fails when a call, a stream, an idle server or a start costs about twice
//! what it should. Calls are measured beside other programs, in turns, since the speed of a machine changes: the Rust SDK
//! (rmcp), a bare hyper server, and nginx as a proxy.

mod load;
mod server;

use anyhow::{Result, ensure};

use crate::checks;
use crate::console::table;
use crate::test_server::{FIXTURE, RunningServer};

use load::{Era, Load, Measured};
use server::{LOAD, SERVER};

const BUILD: &str = "build --release --package tests --package mcp-gateway \
     --bin mcp-gateway --bin mcp-conformance --bin bench-floor";

/// Pairs of measurements; every second one begins with the other program.
const ROUNDS: usize = 7;

/// Connections of a load that keeps a server busy without many of them waiting.
const BUSY: usize = 32;

/// Connections of a load whose calls mostly wait.
const CROWDED: usize = 256;

const STREAMS: usize = 1000;

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// The cells of a row, of which the last one is the verdict.
type Row = [String; 6];

/// The verdict on a figure past its bound.
const FAILED: &str = "FAILED";

pub(crate) fn run() -> Result<()> {
    checks::cargo(BUILD, &[])?;
    // Before the minutes of measurements, so that a machine that cannot have it says so at once.
    server::wrk()?;
    let mut rows = vec![beside_rmcp()?];
    rows.extend(beside_hyper()?);
    rows.push(beside_nginx()?);
    rows.extend(alone()?);
    let heading = ["", "ours", "other", "ratio", "bound", ""];
    print_line!("\n{}", table(heading, &rows).trim_end());
    let is_good = rows.iter().all(|row| row[5] != FAILED);
    ensure!(is_good, "a figure is past its bound");
    Ok(())
}

fn beside_rmcp() -> Result<Row> {
    let servers = [&server::fixture(SERVER)?, &server::rmcp()?];
    let work = format!("calls per second of {CROWDED} clients, beside rmcp");
    let pairs = calls_per_second(servers, CROWDED)?;
    Ok(relative(&work, &pairs, Bound::AtLeast(1.5)))
}

fn beside_hyper() -> Result<Vec<Row>> {
    let servers = [&server::fixture(SERVER)?, &server::hyper()?];
    let eras = [
        (Era::Unversioned, "without a version"),
        (Era::Session, "in a session"),
        (Era::Modern, "of 2026-07-28"),
    ];
    let row = |(era, name)| {
        let load = Load::echo(servers[0], era, BUSY)?;
        let bare = load.of_bare_server();
        let pairs = compare(servers, [&load, &bare], |one| one.cpu_micros)?;
        let work = format!("CPU µs of an echo {name}, beside a bare hyper");
        Ok(relative(&work, &pairs, Bound::AtMost(2.2)))
    };
    eras.into_iter().map(row).collect()
}

fn beside_nginx() -> Result<Row> {
    let backend = server::fixture(LOAD)?;
    let servers = [&server::gateway(&backend)?, &server::nginx(&backend)?];
    let work = format!("relayed calls per second of {BUSY} clients, beside nginx");
    let pairs = calls_per_second(servers, BUSY)?;
    Ok(relative(&work, &pairs, Bound::AtLeast(0.4)))
}

fn alone() -> Result<[Row; 3]> {
    let streams = load::memory_of_streams(&server::fixture(SERVER)?, STREAMS)?;
    let (millis, idle) = load::start(&server::binary(FIXTURE))?;
    let [streams, idle] = [streams, idle].map(|kib| kib as f64 / 1024.0);
    let row = |work: &str, ours, most| {
        let cells = [shown(ours), String::new(), String::new()];
        row(work, cells, ours, Bound::AtMost(most))
    };
    Ok([
        row(&format!("MiB of {STREAMS} open streams"), streams, 20.0),
        row("MiB of an idle server", idle, 15.0),
        row("ms from a start to the first answer", millis, 10.0),
    ])
}

fn calls_per_second(servers: [&RunningServer; 2], connections: usize) -> Result<Vec<[f64; 2]>> {
    let load = |server| Load::echo(server, Era::Unversioned, connections);
    let loads = [&load(servers[0])?, &load(servers[1])?];
    compare(servers, loads, |one| one.per_second)
}

/// Measures our server and another one in turns.
fn compare(
    servers: [&RunningServer; 2],
    loads: [&Load; 2],
    figure: fn(Measured) -> f64,
) -> Result<Vec<[f64; 2]>> {
    let measure = |at: usize| loads[at].measure(servers[at]).map(figure);
    // The first measurements are slower, and do not count.
    measure(0)?;
    measure(1)?;
    let round = |number: usize| {
        if number.is_multiple_of(2) {
            return Ok([measure(0)?, measure(1)?]);
        }
        let other = measure(1)?;
        Ok([measure(0)?, other])
    };
    (0..ROUNDS).map(round).collect()
}

/// Creates a row for the ratio of a figure of ours to that of another program: the median is judged.
fn relative(work: &str, pairs: &[[f64; 2]], bound: Bound) -> Row {
    let sorted = |figure: fn(&[f64; 2]) -> f64| {
        let mut figures: Vec<_> = pairs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures
    };
    let [ours, other] = [sorted(|pair| pair[0]), sorted(|pair| pair[1])];
    let ratios = sorted(|pair| pair[0] / pair[1]);
    let (least, ratio, most) = (ratios[0], ratios[ROUNDS / 2], ratios[ROUNDS - 1]);
    let ratios = format!("{ratio:.2} ({least:.2} to {most:.2})");
    let [ours, other] = [ours, other].map(|figures| shown(figures[ROUNDS / 2]));
    row(work, [ours, other, ratios], ratio, bound)
}

fn row(work: &str, [ours, other, ratio]: [String; 3], judged: f64, bound: Bound) -> Row {
    let (is_good, bound) = match bound {
        Bound::AtMost(most) => (judged <= most, format!("at most {most}")),
        Bound::AtLeast(least) => (judged >= least, format!("at least {least}")),
    };
    let verdict = if is_good { "ok" } else { FAILED };
    let [work, verdict] = [work, verdict].map(str::to_owned);
    [work, ours, other, ratio, bound, verdict]
}

fn shown(value: f64) -> String {
    let decimals = usize::from(value < 100.0);
    format!("{value:.decimals$}")
}
