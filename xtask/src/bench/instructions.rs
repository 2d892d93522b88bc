//! Counts the instructions of one request: the same on every run, so that a test can check them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::row::{Limit, Row};
use super::server::{Bench, BenchServer, Cpu};
use crate::layout::on_path;
use crate::servers::Gateway;
use crate::test_server::{self, FIXTURE};

/// The way of a request to the server that is counted.
#[derive(Clone, Copy)]
enum Way {
    Http,
    Stdio,
    /// Through the gateway, which is counted, to a server over HTTP, which is not.
    Gateway,
}

/// A load, and the most instructions for one `tools/call` of it. Clients with an SDK open a session or speak
/// 2026-07-28. Where more is allowed than is aimed at, the name says so.
const LOADS: [(&str, Way, &str, f64); 9] = [
    (
        "instructions per echo, unversioned (aim: 23,000)",
        Way::Http,
        "echo",
        28_700.0,
    ),
    (
        "instructions per echo, session (aim: 27,000)",
        Way::Http,
        "session-echo",
        33_900.0,
    ),
    (
        "instructions per echo, 2026-07-28 (aim: 30,000)",
        Way::Http,
        "modern-echo",
        38_200.0,
    ),
    (
        "instructions per echo, stdio, unversioned",
        Way::Stdio,
        "--body ECHO",
        14_700.0,
    ),
    (
        "instructions per echo, stdio, session",
        Way::Stdio,
        "--initialize INITIALIZE --body ECHO",
        15_100.0,
    ),
    (
        "instructions per echo, stdio, 2026-07-28",
        Way::Stdio,
        "--body MODERN-ECHO",
        20_400.0,
    ),
    (
        "instructions per relayed echo, unversioned (aim: 100,000)",
        Way::Gateway,
        "echo",
        106_700.0,
    ),
    (
        "instructions per relayed echo, session (aim: 100,000)",
        Way::Gateway,
        "session-echo",
        117_000.0,
    ),
    (
        "instructions per relayed echo, 2026-07-28 (aim: 100,000)",
        Way::Gateway,
        "modern-echo",
        126_700.0,
    ),
];
/// The requests of two runs; the difference leaves out the start.
const FEW_REQUESTS: f64 = 500.0;
const MANY_REQUESTS: f64 = 8_500.0;

/// Counts instructions with the callgrind of valgrind.
struct Counter<'a> {
    bench: &'a Bench<'a>,
    valgrind: PathBuf,
}

/// Counts them; no rows without valgrind.
pub(super) fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let Some(valgrind) = on_path("valgrind") else {
        return Ok(Vec::new());
    };
    let counter = Counter { bench, valgrind };
    let floor = counter.per_request(|requests| {
        let load = "--header JSON --body ECHO --path /150";
        counter.of_server("bench-floor", "", load, requests)
    })?;
    let row = |(work, way, load, most): (&str, Way, &str, f64)| {
        let ours = counter.per_request(|requests| match way {
            Way::Http => counter.of_server(FIXTURE, "--token bench", load, requests),
            Way::Stdio => counter.of_child(load, requests),
            Way::Gateway => counter.of_gateway(load, requests),
        })?;
        let floor = matches!(way, Way::Http).then_some(floor);
        Ok(Row::absolute(work, ours, floor, Limit::AtMost(most)))
    };
    LOADS.into_iter().map(row).collect()
}

impl Counter<'_> {
    /// Returns the instructions of one request; `count` counts those of a run with some requests.
    fn per_request(&self, count: impl Fn(f64) -> anyhow::Result<f64>) -> anyhow::Result<f64> {
        let difference = count(MANY_REQUESTS)? - count(FEW_REQUESTS)?;
        Ok(difference / (MANY_REQUESTS - FEW_REQUESTS))
    }

    /// Counts a server over HTTP.
    fn of_server(&self, name: &str, words: &str, load: &str, requests: f64) -> anyhow::Result<f64> {
        let profile = self.bench.layout.fresh_log("bench-callgrind")?;
        let program = self.bench.program(Cpu::Own, &self.valgrind)?;
        let program = program.args(self.args(&profile, name)).words(words);
        let program = program.words("--port 0");
        let server = self
            .bench
            .launch(Cpu::Own, program, test_server::listens_on)?;
        self.load(server, load, requests)?;
        sum(&profile)
    }

    /// Counts a server over stdio.
    fn of_child(&self, load: &str, requests: f64) -> anyhow::Result<f64> {
        let profile = self.bench.layout.fresh_log("bench-callgrind")?;
        let child = self.args(&profile, FIXTURE).join(" ");
        let valgrind = self.valgrind.display();
        let load = format!(
            "stdio {load} --expect OK --window 1 --millis 60000 --requests {requests} \
             -- {valgrind} {child} --stdio --log error"
        );
        self.bench.load(Cpu::Any, &load, 0)?;
        sum(&profile)
    }

    /// Counts the gateway, in front of a server over HTTP.
    fn of_gateway(&self, load: &str, requests: f64) -> anyhow::Result<f64> {
        let profile = self.bench.layout.fresh_log("bench-callgrind")?;
        let program = self.bench.program(Cpu::Own, &self.valgrind)?;
        let program = program.args(self.args(&profile, Gateway::PROGRAM));
        let backend = self.bench.fixture(Cpu::Load)?;
        let gateway = self.bench.gateway_over_http(program, backend)?;
        self.load(gateway, load, requests)?;
        sum(&profile)
    }

    /// Sends the requests to a server, and ends it: then it writes the profile.
    fn load(&self, server: BenchServer, load: &str, requests: f64) -> anyhow::Result<()> {
        let load = format!("http {load} --millis 60000 --requests {requests}");
        server.load(self.bench, &load, 0)?;
        drop(server);
        Ok(())
    }

    /// The arguments of valgrind for one of our programs.
    fn args(&self, profile: &Path, program: &str) -> [String; 3] {
        [
            "--tool=callgrind".to_owned(),
            format!("--callgrind-out-file={}", profile.display()),
            self.bench.binary(program),
        ]
    }
}

/// Returns the sum in a profile.
fn sum(profile: &Path) -> anyhow::Result<f64> {
    let profile = fs::read_to_string(profile)?;
    let prefixes = ["summary: ", "totals: "];
    let sum = |line: &str| {
        prefixes
            .iter()
            .find_map(|prefix| line.strip_prefix(prefix)?.trim().parse::<f64>().ok())
    };
    profile
        .lines()
        .find_map(sum)
        .context("no sum in the profile")
}
