//! `cargo xtask bench`: fails when a call, a stream, an idle server or a start costs about twice what it should.
//! Calls are measured as ratios to other programs, in turns, since the speed of a machine changes: the Rust SDK (rmcp), a
//! bare hyper server, and nginx as a proxy.

mod load;
mod server;

use std::process::ExitCode;

use crate::cargo;
use crate::console::table;
use crate::layout::Layout;

use load::{Era, Load, Measured};
use server::{Bench, BenchServer};

const BUILD: &str = "build --release --package tests --package mcp-gateway \
     --bin mcp-gateway --bin mcp-conformance --bin bench-floor";

/// Pairs of measurements; every second one begins with the other program.
const ROUNDS: usize = 7;

/// Connections of a load that keeps a server busy without many of them waiting.
const BUSY: usize = 32;

/// Connections of a load whose calls mostly wait.
const CROWDED: usize = 256;

const STREAMS: usize = 1000;

/// The limit of a ratio or a figure.
#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }

    fn shown(self) -> String {
        match self {
            Self::AtMost(most) => format!("at most {most}"),
            Self::AtLeast(least) => format!("at least {least}"),
        }
    }
}

struct Row {
    cells: [String; 6],
    is_good: bool,
}

impl Row {
    /// Creates a row for the ratio of a figure of ours to that of another program.
    fn relative(work: &str, pairs: &[[f64; 2]], bound: Bound) -> Self {
        let ratios = sorted(pairs.iter().map(|[ours, other]| ours / other));
        let [ours, other] = [0, 1].map(|side| median(&sorted(pairs.iter().map(|pair| pair[side]))));
        let ratio = median(&ratios);
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        let cells = [
            shown(ours),
            shown(other),
            format!("{ratio:.2} ({least:.2} to {most:.2})"),
        ];
        Self::new(work, cells, ratio, bound)
    }

    /// Creates a row for a figure of ours alone.
    fn absolute(work: &str, ours: f64, bound: Bound) -> Self {
        Self::new(
            work,
            [shown(ours), String::new(), String::new()],
            ours,
            bound,
        )
    }

    fn new(work: &str, [ours, other, ratio]: [String; 3], judged: f64, bound: Bound) -> Self {
        let is_good = bound.holds(judged);
        let verdict = if is_good { "ok" } else { "FAILED" };
        Self {
            cells: [
                work.to_owned(),
                ours,
                other,
                ratio,
                bound.shown(),
                verdict.to_owned(),
            ],
            is_good,
        }
    }
}

/// Builds, measures, prints the table, and fails if a row is past its bound.
pub(crate) fn run(layout: &Layout) -> anyhow::Result<ExitCode> {
    if !cargo::run(layout, BUILD, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let bench = Bench::install(layout)?;
    let mut rows = vec![beside_rmcp(&bench)?];
    rows.extend(beside_hyper(&bench)?);
    rows.push(beside_nginx(&bench)?);
    rows.extend(alone(&bench)?);
    let heading = ["", "ours", "other", "ratio", "bound", ""].map(str::to_owned);
    let cells: Vec<_> = [heading]
        .into_iter()
        .chain(rows.iter().map(|row| row.cells.clone()))
        .collect();
    print_line!("\n{}", table(&cells).trim_end());
    Ok(cargo::exit_code(rows.iter().all(|row| row.is_good)))
}

fn beside_rmcp(bench: &Bench<'_>) -> anyhow::Result<Row> {
    let (ours, rmcp) = (bench.fixture()?, bench.rmcp()?);
    let load = |server: &BenchServer| Load::echo(server, Era::Unversioned, CROWDED);
    let pairs = compare(bench, (&ours, &load(&ours)?), (&rmcp, &load(&rmcp)?))?;
    let work = format!("calls per second of {CROWDED} clients, beside rmcp");
    let pairs = figures(&pairs, |measured| measured.per_second);
    Ok(Row::relative(&work, &pairs, Bound::AtLeast(2.0)))
}

fn beside_hyper(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let (ours, hyper) = (bench.fixture()?, bench.hyper()?);
    let eras = [
        (Era::Unversioned, "without a version"),
        (Era::Session, "in a session"),
        (Era::Modern, "of 2026-07-28"),
    ];
    let row = |(era, name)| {
        let load = Load::echo(&ours, era, BUSY)?;
        let pairs = compare(bench, (&ours, &load), (&hyper, &load.of_bare_server()))?;
        let pairs = figures(&pairs, |measured| measured.cpu_micros);
        let work = format!("CPU µs of an echo {name}, beside a bare hyper");
        Ok(Row::relative(&work, &pairs, Bound::AtMost(2.2)))
    };
    eras.into_iter().map(row).collect()
}

fn beside_nginx(bench: &Bench<'_>) -> anyhow::Result<Row> {
    let (ours, nginx) = (bench.gateway()?, bench.nginx()?);
    let load = |server: &BenchServer| Load::echo(server, Era::Unversioned, BUSY);
    let pairs = compare(bench, (&ours, &load(&ours)?), (&nginx, &load(&nginx)?))?;
    let pairs = figures(&pairs, |measured| measured.per_second);
    let work = format!("relayed calls per second of {BUSY} clients, beside nginx");
    Ok(Row::relative(&work, &pairs, Bound::AtLeast(0.4)))
}

fn alone(bench: &Bench<'_>) -> anyhow::Result<[Row; 3]> {
    let streams = load::memory_of_streams(&bench.fixture()?, STREAMS)?;
    let start = load::start(&bench.binary(crate::test_server::FIXTURE))?;
    let mib = |kib: u64| kib as f64 / 1024.0;
    let [streams, idle] = [streams, start.resident_kib].map(mib);
    let of_streams = format!("MiB of {STREAMS} open streams");
    Ok([
        Row::absolute(&of_streams, streams, Bound::AtMost(20.0)),
        Row::absolute("MiB of an idle server", idle, Bound::AtMost(15.0)),
        Row::absolute(
            "ms from a start to the first answer",
            start.millis,
            Bound::AtMost(10.0),
        ),
    ])
}

/// Measures two servers in turns.
fn compare(
    bench: &Bench<'_>,
    ours: (&BenchServer, &Load),
    other: (&BenchServer, &Load),
) -> anyhow::Result<Vec<[Measured; 2]>> {
    let measure = |(server, load): (&BenchServer, &Load)| load.measure(bench, server);
    // The first measurements are slower, and do not count.
    measure(ours)?;
    measure(other)?;
    let round = |number: usize| {
        if number.is_multiple_of(2) {
            return Ok([measure(ours)?, measure(other)?]);
        }
        let other = measure(other)?;
        Ok([measure(ours)?, other])
    };
    (0..ROUNDS).map(round).collect()
}

fn figures(pairs: &[[Measured; 2]], figure: fn(&Measured) -> f64) -> Vec<[f64; 2]> {
    let both = |[ours, other]: &[Measured; 2]| [figure(ours), figure(other)];
    pairs.iter().map(both).collect()
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

fn shown(value: f64) -> String {
    if value < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_judged_by_the_median_of_its_ratios() {
        let pairs = [[9.0, 2.0], [30.0, 10.0], [21.0, 10.0]];
        let row = |bound| Row::relative("calls", &pairs, bound);
        let good = row(Bound::AtLeast(3.0));
        assert!(good.is_good);
        assert_eq!(good.cells[1..4], ["21.0", "10.0", "3.00 (2.10 to 4.50)"]);
        let failed = row(Bound::AtMost(2.9));
        assert!(!failed.is_good);
        assert_eq!(failed.cells[4..], ["at most 2.9", "FAILED"]);
    }
}
