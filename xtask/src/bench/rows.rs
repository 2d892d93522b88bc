//! What is measured, and what it is to be.

use anyhow::{Context, bail};
use serde_json::Value;

use super::note;
use super::peer::{Bench, Cpu, Peer};
use super::proxies;
use super::row::{Limit, Row};
use super::sample::{Pairs, compare, figure};
use super::sdks;
use crate::fixture::FIXTURE;

/// The comparisons, one a line.
const ROWS: &str = include_str!("rows.txt");

/// The figure of a load that says how long the slowest hundredth took at least, in µs.
const P99: &str = "p99_us";

/// A line of [`ROWS`].
struct Comparison<'a> {
    ours: (&'a str, &'a str),
    other: (&'a str, &'a str),
    more: &'a str,
    field: &'a str,
    limit: Limit,
    work: &'a str,
}

impl<'a> Comparison<'a> {
    fn parse(line: &'a str) -> anyhow::Result<Self> {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [ours, other, more, field, limit, work] = cells[..] else {
            bail!("a row has six cells: {line}");
        };
        let side = |cell: &'a str| {
            let (server, load) = cell.split_once(' ').context("a server needs a load")?;
            anyhow::Ok((server, load.trim()))
        };
        let (ours, other, limit) = (side(ours)?, side(other)?, Limit::parse(limit)?);
        Ok(Self {
            ours,
            other,
            more,
            field,
            limit,
            work,
        })
    }
}

fn parsed() -> impl Iterator<Item = anyhow::Result<Comparison<'static>>> {
    let lines = ROWS.lines().filter(|line| !line.starts_with('#'));
    lines.map(Comparison::parse)
}

/// Two servers that run, where they can be had.
struct Servers {
    names: (&'static str, &'static str),
    both: Option<(Peer, Peer)>,
}

/// Measures ours beside others, in turns; a line for one that cannot be had.
pub(super) fn comparisons(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    // What neighbouring rows have in common is started and measured once.
    let mut servers: Option<Servers> = None;
    let mut measured: Option<(String, Pairs)> = None;
    for comparison in parsed() {
        let comparison = comparison?;
        let ((ours, load), (other, other_load)) = (comparison.ours, comparison.other);
        servers = match servers.take() {
            Some(same) if same.names == (ours, other) => Some(same),
            earlier => {
                drop(earlier);
                let both = start(bench, other).and_then(|peer| Ok((start(bench, ours)?, peer)));
                if let Err(why) = &both {
                    note(format_args!("no {ours} beside {other}: {why:#}"));
                }
                Some(Servers {
                    names: (ours, other),
                    both: both.ok(),
                })
            }
        };
        let Some((own, peer)) = servers.as_ref().and_then(|servers| servers.both.as_ref()) else {
            continue;
        };
        let more = comparison.more;
        let key = format!("{ours} {load} {other} {more}");
        let pairs = match measured.take().filter(|(before, _)| *before == key) {
            Some((_, pairs)) => pairs,
            None => {
                let one = own.load(bench, &format!("http {load} --requests 1"), 0)?;
                let size = one["bytes"].as_u64().and_then(|size| size.try_into().ok());
                let size = size.context("the load does not say how long an answer is")?;
                compare(
                    || own.load(bench, &format!("http {load} {more}"), size),
                    || peer.load(bench, &format!("http {other_load} {more}"), size),
                )?
            }
        };
        let Comparison { work, field, .. } = comparison;
        let is_judged = field != P99 && !matches!(comparison.limit, Limit::Any);
        let p99 = is_judged.then(|| pairs.sample(P99));
        let sample = pairs.sample(field);
        rows.push(Row::relative(work, &sample, p99, other, comparison.limit));
        measured = Some((key, pairs));
    }
    Ok(rows)
}

/// Starts a server by its name in [`ROWS`].
fn start(bench: &Bench<'_>, name: &str) -> anyhow::Result<Peer> {
    let with_tools = |words| bench.start(Cpu::Own, bench.binary("bench-server"), words);
    match name {
        "ours" | "JSON" => bench.ours(Cpu::Own),
        "hyper" => bench.start(Cpu::Own, bench.binary("bench-floor"), ""),
        "3-tools" => with_tools("--token bench --tools 3"),
        "500-tools" => with_tools("--token bench --tools 500"),
        "rmcp" => sdks::rmcp(bench),
        "TypeScript" => sdks::installed(bench, "typescript", "bench.mjs"),
        "Python" => sdks::installed(bench, "python", "bench.py"),
        "gateway" => proxies::gateway_before_http(bench, Cpu::Own),
        "HTTP" => proxies::gateway_before_http(bench, Cpu::Any),
        "gateway-child" => proxies::gateway_before_child(bench),
        "nginx" => proxies::nginx(bench),
        other => bail!("there is no server {other}"),
    }
}

/// Measures ours alone.
pub(super) fn absolute(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let mut rows = memory(bench)?;
    let (ours, floor) = (bench.binary(FIXTURE), bench.binary("bench-floor"));
    let run = |line: &str| bench.load(Cpu::Any, line, 0);
    let echo = "stdio --body ECHO --window 32 --millis 1000";
    let pairs = compare(
        || run(&format!("{echo} --expect OK -- {ours} --stdio --log error")),
        // It reads no line, it only counts them.
        || run(&format!("{echo} -- {floor} --stdio 150")),
    )?;
    let rate = pairs.sample("per_second");
    let mut push = |work, ours, floor, limit| rows.push(Row::absolute(work, ours, floor, limit));
    // The official Rust SDK reached 17,000 a second.
    let (work, limit) = (
        "stdio echo, window 32, per second",
        Limit::AtLeast(170_000.0),
    );
    push(work, rate.ours, Some(rate.floor), limit);
    let echo = "start --body ECHO --times 11 --header TOKEN";
    let ours = run(&format!("{echo} -- {ours} --token bench"))?;
    let floor = run(&format!("{echo} -- {floor}"))?;
    for (work, field, unit, most) in [
        ("start to the first answer, ms", "millis", 1.0, 10.0),
        ("idle memory, MiB", "memory_kib", 1024.0, 8.0),
    ] {
        let [ours, floor] = [&ours, &floor].map(|measured| figure(measured, field) / unit);
        push(work, ours, Some(floor), Limit::AtMost(most));
    }
    Ok(rows)
}

/// Measures what clients leave behind that never come back, and what those cost that stay.
fn memory(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let grown = |measured: &Value| figure(measured, "grown_kib") / 1024.0;
    let initialize = "--header JSON --body INITIALIZE";
    let server = bench.ours(Cpu::Any)?;
    let flood = |requests| {
        let line =
            format!("http {initialize} --connections 8 --millis 120000 --requests {requests}");
        server.load(bench, &line, 0)
    };
    flood(2_000)?;
    let flood = grown(&flood(100_000)?);
    let server = bench.ours(Cpu::Any)?;
    let streams = server.load(bench, &format!("streams {initialize} --count 1000"), 0)?;
    let row = |work, grown, most| Row::absolute(work, grown, None, Limit::AtMost(most));
    Ok(vec![
        row("memory after 100,000 initialize, MiB", flood, 5.0),
        row("memory of 1,000 open streams, MiB", grown(&streams), 10.0),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_read() {
        let rows: Vec<_> = parsed().collect::<anyhow::Result<_>>().unwrap();
        assert_eq!(rows.len(), 21);
        assert_eq!(rows[0].ours, ("ours", "echo"));
        assert_eq!(rows[0].other, ("hyper", "echo-sized"));
        assert_eq!(rows[0].work, "echo, 32 connections, µs");
    }
}
