//! What is measured, and what it is to be.

use serde_json::Value;

use super::peer::{Bench, Core, Peer, TOKEN};
use super::sample::{Pairs, Sample, compare};

pub(super) const JSON: &str = "Accept: application/json";
pub(super) const ECHO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":"hello hello hello hello hello hello"}}}"#;
pub(super) const ECHO_ANSWER: &str = r#""isError":false}}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;

/// One line of the table.
pub(super) struct Row {
    work: String,
    ours: String,
    floor: String,
    ratio: String,
    target: String,
    p99: String,
    good: bool,
}

impl Row {
    pub(super) fn judged(work: &str, target: impl Into<String>, good: bool) -> Self {
        Self {
            work: work.to_owned(),
            ours: String::new(),
            floor: String::new(),
            ratio: String::new(),
            target: target.into(),
            p99: String::new(),
            good,
        }
    }

    pub(super) fn with(self, ours: String, floor: String) -> Self {
        Self {
            ours,
            floor,
            ..self
        }
    }

    pub(super) fn with_ratio(self, ratio: f64) -> Self {
        Self {
            ratio: format!("{ratio:.2}"),
            ..self
        }
    }

    /// With how long the slowest hundredth took at least, in µs.
    pub(super) fn with_p99(self, pairs: &Pairs) -> Self {
        let Sample { ours, floor, .. } = pairs.sample("p99_us");
        Self {
            p99: format!("{ours:.0} / {floor:.0}"),
            ..self
        }
    }

    pub(super) fn is_missed(&self) -> bool {
        !self.good
    }

    pub(super) fn cells(&self) -> [String; 7] {
        // Of what has no target, nothing can be said.
        let verdict = match (self.target.is_empty(), self.good) {
            (true, _) => "",
            (false, true) => "ok",
            (false, false) => "MISSED",
        };
        let Self {
            work,
            ours,
            floor,
            ratio,
            target,
            p99,
            ..
        } = self;
        [work, ours, floor, ratio, p99, target, verdict].map(|cell: &str| cell.to_owned())
    }
}

pub(super) fn heading() -> [String; 7] {
    ["work", "ours", "floor", "ratio", "p99 µs", "target", ""].map(str::to_owned)
}

/// One kind of load.
struct Load {
    work: &'static str,
    body: String,
    expect: &'static str,
    connections: &'static str,
    depth: &'static str,
    /// The most that our CPU time per answer may be of the floor's.
    most: f64,
}

/// CPU time per answer, beside a bare server that sends as many bytes.
pub(super) fn http(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let (ours, floor) = (bench.ours(Core::Own)?, bench.floor()?);
    let load = |work, body: &str, connections, depth, most| Load {
        work,
        body: body.to_owned(),
        expect: if body == LIST { "" } else { ECHO_ANSWER },
        connections,
        depth,
        most,
    };
    let batch = format!("[{}]", [ECHO; 10].join(","));
    let loads = [
        load("echo, 32 connections, µs", ECHO, "32", "1", 1.25),
        load("echo, 256 connections, µs", ECHO, "256", "1", 1.4),
        load("batch of 10 echoes, µs", &batch, "32", "1", 1.9),
        load("echo, pipelined 8 deep, µs", ECHO, "8", "8", 4.0),
    ];
    let mut rows = Vec::new();
    for load in &loads {
        rows.push(load.measure(bench, &ours, &floor)?);
    }
    for (work, tools) in [
        ("tools/list, 3 tools, µs", "3"),
        ("tools/list, 500 tools, µs", "500"),
    ] {
        let args = ["--token", TOKEN, "--tools", tools];
        let server = bench.start(&[bench.path("bench-server")], &args, Core::Own)?;
        rows.push(load(work, LIST, "32", "1", 1.3).measure(bench, &server, &floor)?);
    }
    rows.push(events(bench, &ours)?);
    Ok(rows)
}

impl Load {
    fn measure(&self, bench: &Bench<'_>, ours: &Peer, floor: &Peer) -> anyhow::Result<Row> {
        let load = ["http", "--header", JSON, "--body", &self.body];
        let many = ["--connections", self.connections, "--depth", self.depth];
        let expect = ["--expect", self.expect];
        let one = ours.load(bench, &[&load[..], &expect, &["--requests", "1"]].concat())?;
        let path = format!("/{}", one["bytes"]);
        let pairs = compare(
            || ours.load(bench, &[&load[..], &many, &expect].concat()),
            || floor.load(bench, &[&load[..], &many, &["--path", &path]].concat()),
        )?;
        let sample = pairs.sample("cpu_us");
        let target = format!("at most {} × hyper", self.most);
        Ok(Row::judged(self.work, target, sample.ratio <= self.most)
            .with(
                format!("{:.1}", sample.ours),
                format!("{:.1}", sample.floor),
            )
            .with_ratio(sample.ratio)
            .with_p99(&pairs))
    }
}

/// The trap of small writes: an event stream that waits for a delayed acknowledgement takes 40 ms.
fn events(bench: &Bench<'_>, ours: &Peer) -> anyhow::Result<Row> {
    let load = [
        "http",
        "--body",
        ECHO,
        "--expect",
        r#""isError":false"#,
        "--header",
    ];
    let pairs = compare(
        || ours.load(bench, &[&load[..], &["Accept: text/event-stream"]].concat()),
        || ours.load(bench, &[&load[..], &[JSON]].concat()),
    )?;
    let sample = pairs.sample("p50_us");
    Ok(Row::judged(
        "echo as an event stream, median µs",
        "at most 1.3 × as JSON",
        sample.ratio <= 1.3,
    )
    .with(
        format!("{:.0}", sample.ours),
        format!("{:.0} (JSON)", sample.floor),
    )
    .with_ratio(sample.ratio)
    .with_p99(&pairs))
}

/// What clients leave behind that never come back, and what those cost that stay.
pub(super) fn memory(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let initialize = ["--header", JSON, "--body", INITIALIZE];
    let server = bench.ours(Core::Any)?;
    let load = |requests| {
        let many = [
            "http",
            "--connections",
            "8",
            "--millis",
            "120000",
            "--requests",
            requests,
        ];
        server.load(bench, &[&many[..], &initialize].concat())
    };
    load("2000")?;
    let flood = grown(&load("100000")?);
    let server = bench.ours(Core::Any)?;
    let streams = ["streams", "--count", "1000"];
    let streams = grown(&server.load(bench, &[&streams[..], &initialize].concat())?);
    let mib = |size: f64| format!("{size:.1}");
    Ok(vec![
        Row::judged(
            "memory after 100,000 initialize, MiB",
            "less than 5",
            flood < 5.0,
        )
        .with(mib(flood), String::new()),
        Row::judged(
            "memory of 1,000 open streams, MiB",
            "at most 10",
            streams <= 10.0,
        )
        .with(mib(streams), String::new()),
    ])
}

fn grown(measured: &Value) -> f64 {
    measured["grown_kib"].as_f64().unwrap_or(f64::NAN) / 1024.0
}

/// A child and its standard streams, beside one that only counts lines.
pub(super) fn stdio(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let load = [
        "stdio", "--window", "32", "--millis", "1000", "--body", ECHO,
    ];
    let (ours, floor) = (bench.path("mcp-conformance"), bench.path("bench-floor"));
    let run = |expect: &str, program: &[&str]| {
        bench.load(&[&load[..], &["--expect", expect, "--"], program].concat())
    };
    let sample = compare(
        || run(ECHO_ANSWER, &[&ours, "--stdio", "--log", "error"]),
        || run("", &[&floor, "--stdio", "150"]),
    )?
    .sample("per_second");
    // The floor reads no line, it only counts them. The official Rust SDK reached 17,000 a second.
    let target = "at least 170,000 (10 × rmcp)";
    Ok(vec![
        Row::judged(
            "stdio echo, window 32, per second",
            target,
            sample.ours >= 170_000.0,
        )
        .with(
            format!("{:.0}", sample.ours),
            format!("{:.0}", sample.floor),
        )
        .with_ratio(sample.ratio),
    ])
}

/// From the start to the first answer.
pub(super) fn start(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let load = [
        "start",
        "--times",
        "11",
        "--body",
        ECHO,
        "--header",
        "Authorization: Bearer bench",
        "--",
    ];
    let ours = bench.path("mcp-conformance");
    let ours = bench.load(&[&load[..], &[&ours, "--token", "bench"]].concat())?;
    let floor = bench.path("bench-floor");
    let floor = bench.load(&[&load[..], &[&floor]].concat())?;
    let of = |measured: &Value, field: &str| measured[field].as_f64().unwrap_or(f64::NAN);
    let rows = [
        ("start to the first answer, ms", "millis", 1.0, 10.0),
        ("idle memory, MiB", "memory_kib", 1024.0, 8.0),
    ];
    let row = |(work, field, unit, most): (&str, &str, f64, f64)| {
        let (ours, floor) = (of(&ours, field) / unit, of(&floor, field) / unit);
        Row::judged(work, format!("at most {most}"), ours <= most)
            .with(format!("{ours:.1}"), format!("{floor:.1}"))
            .with_ratio(ours / floor)
    };
    Ok(rows.into_iter().map(row).collect())
}
