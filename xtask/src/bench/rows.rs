//! What our servers alone are measured by.

use serde_json::Value;

use super::load::{ECHO, ECHO_ANSWER, JSON, Load};
use super::peer::{Bench, Cpu, Peer, TOKEN};
use super::sample::{Figure, Limit, Row, compare};
use crate::fixture::FIXTURE;

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;

/// Measures CPU time per answer, beside a bare server that sends as many bytes.
pub(super) fn http(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let (ours, floor) = (bench.ours(Cpu::Own)?, bench.floor()?);
    let batch = format!("[{}]", [ECHO; 10].join(","));
    let mut rows = Vec::new();
    for (work, body, connections, depth, most) in [
        ("echo, 32 connections, µs", ECHO, 32, 1, 1.25),
        ("echo, 256 connections, µs", ECHO, 256, 1, 1.4),
        ("batch of 10 echoes, µs", &batch, 32, 1, 1.9),
        ("echo, pipelined 8 deep, µs", ECHO, 8, 8, 4.0),
    ] {
        let one = Load::new("http", body).with("--header", JSON);
        let one = one.with("--expect", ECHO_ANSWER);
        let many = one.clone().with("--connections", connections);
        let many = many.with("--depth", depth);
        rows.push(beside_floor(
            bench,
            work,
            (&ours, &floor),
            &one,
            &many,
            most,
        )?);
    }
    for (work, tools) in [
        ("tools/list, 3 tools, µs", "--tools 3"),
        ("tools/list, 500 tools, µs", "--tools 500"),
    ] {
        let server = bench.server(tools)?;
        let one = Load::new("http", LIST).with("--header", JSON);
        let many = one.clone().with("--connections", 32);
        rows.push(beside_floor(
            bench,
            work,
            (&server, &floor),
            &one,
            &many,
            1.3,
        )?);
    }
    rows.push(events(bench, &ours)?);
    Ok(rows)
}

fn beside_floor(
    bench: &Bench<'_>,
    work: &str,
    (ours, floor): (&Peer, &Peer),
    one: &Load,
    many: &Load,
    most: f64,
) -> anyhow::Result<Row> {
    let one = ours.load(bench, &one.clone().with("--requests", 1))?;
    // The floor answers with as many bytes as its path says, whatever they are.
    let path = format!("/{}", one["bytes"]);
    let of_floor = many.clone().with("--path", path).without("--expect");
    let pairs = compare(|| ours.load(bench, many), || floor.load(bench, &of_floor))?;
    Ok(pairs.row(&Figure {
        work,
        field: "cpu_us",
        digits: 1,
        beside: "hyper",
        limit: Limit::AtMost(most),
    }))
}

/// Measures the trap of small writes: an event stream that waits for a delayed acknowledgement takes
/// 40 ms.
fn events(bench: &Bench<'_>, ours: &Peer) -> anyhow::Result<Row> {
    let echo = Load::new("http", ECHO).with("--expect", r#""isError":false"#);
    let stream = echo.clone().with("--header", "Accept: text/event-stream");
    let json = echo.with("--header", JSON);
    let pairs = compare(|| ours.load(bench, &stream), || ours.load(bench, &json))?;
    Ok(pairs.row(&Figure {
        work: "echo as an event stream, median µs",
        field: "p50_us",
        digits: 0,
        beside: "JSON",
        limit: Limit::AtMost(1.3),
    }))
}

/// Measures what clients leave behind that never come back, and what those cost that stay.
pub(super) fn memory(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let server = bench.ours(Cpu::Any)?;
    let load = |requests| {
        let initialize = Load::new("http", INITIALIZE).with("--header", JSON);
        let many = initialize
            .with("--connections", 8)
            .with("--millis", 120_000);
        server.load(bench, &many.with("--requests", requests))
    };
    load(2_000)?;
    let flood = grown(&load(100_000)?);
    let server = bench.ours(Cpu::Any)?;
    let streams = Load::new("streams", INITIALIZE).with("--header", JSON);
    let streams = grown(&server.load(bench, &streams.with("--count", 1_000))?);
    let row =
        |work, size: f64, target, is_good| Row::new(work, &format!("{size:.1}"), target, is_good);
    let work = "memory after 100,000 initialize, MiB";
    let flood = row(work, flood, "less than 5", flood < 5.0);
    let work = "memory of 1,000 open streams, MiB";
    Ok(vec![
        flood,
        row(work, streams, "at most 10", streams <= 10.0),
    ])
}

fn grown(measured: &Value) -> f64 {
    measured["grown_kib"].as_f64().unwrap_or(f64::NAN) / 1024.0
}

/// Measures a child and its standard streams, beside one that only counts lines.
pub(super) fn stdio(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    /// The official Rust SDK reached 17,000 a second.
    const LEAST: f64 = 170_000.0;
    let load = Load::new("stdio", ECHO).with("--window", 32);
    let load = load.with("--millis", 1_000);
    let (ours, floor) = (bench.binary(FIXTURE), bench.binary("bench-floor"));
    let run = |expect: &str, program: &[&str]| {
        let load = load.clone().with("--expect", expect).command(program);
        bench.load(Cpu::Any, &load)
    };
    let sample = compare(
        || run(ECHO_ANSWER, &[&ours, "--stdio", "--log", "error"]),
        || run("", &[&floor, "--stdio", "150"]),
    )?
    .sample("per_second");
    let (work, ours) = ("stdio echo, window 32, per second", sample.ours);
    let target = "at least 170,000 (10 × rmcp)";
    let row = Row::new(work, &format!("{ours:.0}"), target, ours >= LEAST);
    // The floor reads no line, it only counts them.
    let floor = format!("{:.0}", sample.floor);
    Ok(vec![row.beside(floor, sample.ratio)])
}

/// Measures the time from the start to the first answer.
pub(super) fn start(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let load = Load::new("start", ECHO).with("--times", 11);
    let load = load.with("--header", format!("Authorization: Bearer {TOKEN}"));
    let run = |command: &[&str]| bench.load(Cpu::Any, &load.clone().command(command));
    let ours = run(&[&bench.binary(FIXTURE), "--token", TOKEN])?;
    let floor = run(&[&bench.binary("bench-floor")])?;
    let of = |measured: &Value, field: &str| measured[field].as_f64().unwrap_or(f64::NAN);
    let rows = [
        ("start to the first answer, ms", "millis", 1.0, 10.0),
        ("idle memory, MiB", "memory_kib", 1024.0, 8.0),
    ];
    let row = |(work, field, unit, most)| {
        let (ours, floor) = (of(&ours, field) / unit, of(&floor, field) / unit);
        let target = format!("at most {most}");
        let row = Row::new(work, &format!("{ours:.1}"), &target, ours <= most);
        row.beside(format!("{floor:.1}"), ours / floor)
    };
    Ok(rows.map(row).into())
}
