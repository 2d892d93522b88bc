//! Measures ours beside other servers, as `comparisons.txt` says.

use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::json;

use super::row::{Limit, Pairs, Row, compare};
use super::server::{Bench, BenchServer};

/// One comparison in each line.
const COMPARISONS: &str = include_str!("comparisons.txt");

/// The 99th percentile of the durations in µs.
const P99: &str = "p99_us";

/// The time from the start of a server to the first answered call, in ms; not a figure of the load.
const START: &str = "start_ms";

struct Comparison<'a> {
    ours: (&'a str, &'a str),
    other: (&'a str, &'a str),
    options: &'a str,
    field: &'a str,
    limit: Limit,
    work: &'a str,
}

impl<'a> Comparison<'a> {
    fn parse(line: &'a str) -> anyhow::Result<Self> {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [ours, other, options, field, limit, work] = cells[..] else {
            bail!("a row has six cells: {line}");
        };
        let side = |cell: &'a str| {
            let (server, load) = cell.split_once(' ').context("a server needs a load")?;
            anyhow::Ok((server, load.trim()))
        };
        Ok(Self {
            ours: side(ours)?,
            other: side(other)?,
            options,
            field,
            limit: Limit::parse(limit)?,
            work,
        })
    }

    /// Measures the starts of both, which are installed by now.
    fn start(&self, bench: &Bench<'_>) -> anyhow::Result<Row> {
        let millis = |(server, load): (&str, &str)| {
            let started = Instant::now();
            let server = bench.start(server)?;
            server.load(bench, &format!("http {load} --requests 1"), 0)?;
            anyhow::Ok(json!({"start_ms": started.elapsed().as_secs_f64() * 1e3}))
        };
        let pairs = compare(|| millis(self.ours), || millis(self.other))?;
        let sample = pairs.sample(START);
        Ok(Row::relative(
            self.work,
            &sample,
            None,
            self.other.0,
            self.limit,
        ))
    }

    fn compare(
        &self,
        bench: &Bench<'_>,
        ours: &BenchServer,
        other: &BenchServer,
    ) -> anyhow::Result<Pairs> {
        let (load, other_load) = (self.ours.1, self.other.1);
        let one = ours.load(bench, &format!("http {load} --requests 1"), 0)?;
        let size = one["bytes"].as_u64().context("the load reports no size")?;
        let line = |load| format!("http {load} {}", self.options);
        let size = usize::try_from(size)?;
        compare(
            || ours.load(bench, &line(load), size),
            || other.load(bench, &line(other_load), size),
        )
    }
}

fn comparisons() -> impl Iterator<Item = anyhow::Result<Comparison<'static>>> {
    let lines = COMPARISONS.lines().filter(|line| !line.starts_with('#'));
    lines.map(Comparison::parse)
}

/// Measures all comparisons; prints a line for each pair of servers that is not available.
pub(super) fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    // Neighbouring lines share servers and measurements.
    let mut names = ("", "");
    let mut servers: Option<(BenchServer, BenchServer)> = None;
    let mut measured: Option<(String, Pairs)> = None;
    for comparison in comparisons() {
        let comparison = comparison?;
        let (ours, other) = (comparison.ours.0, comparison.other.0);
        if names != (ours, other) {
            // The processors are needed for the next ones.
            servers = None;
            names = (ours, other);
            let started = bench
                .start(other)
                .and_then(|peer| Ok((bench.start(ours)?, peer)));
            match started {
                Ok(both) => servers = Some(both),
                Err(why) => print_as!("bench", "no {ours} beside {other}: {why:#}"),
            }
        }
        let Some((own, peer)) = &servers else {
            rows.push(Row::unmeasured(comparison.work));
            continue;
        };
        // A server that stops to answer is not the end of the bench.
        let unmeasured = |why: &anyhow::Error| {
            print_as!("bench", "{}: {why:#}", comparison.work);
            Row::unmeasured(comparison.work)
        };
        if comparison.field == START {
            let row = comparison.start(bench);
            rows.push(row.unwrap_or_else(|why| unmeasured(&why)));
            continue;
        }
        let key = format!(
            "{ours} {} {other} {}",
            comparison.ours.1, comparison.options
        );
        let pairs = match measured.take().filter(|(before, _)| *before == key) {
            Some((_, pairs)) => pairs,
            None => match comparison.compare(bench, own, peer) {
                Ok(pairs) => pairs,
                Err(why) => {
                    rows.push(unmeasured(&why));
                    continue;
                }
            },
        };
        let Comparison {
            work, field, limit, ..
        } = comparison;
        let has_p99 = field != P99 && !matches!(limit, Limit::None);
        let p99 = has_p99.then(|| pairs.sample(P99));
        rows.push(Row::relative(work, &pairs.sample(field), p99, other, limit));
        measured = Some((key, pairs));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_valid() {
        let lines: Vec<_> = comparisons().collect::<anyhow::Result<_>>().unwrap();
        assert_eq!(lines.len(), 34);
        assert_eq!(lines[0].ours, ("ours", "echo"));
        assert_eq!(lines[0].other, ("hyper", "echo-sized"));
        assert_eq!(lines[0].work, "echo, 32 connections, µs");
    }
}
