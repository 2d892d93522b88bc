//! Counts the instructions of one request: the same on every run, so that a test can check them.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::callgrind::Callgrind;
use super::row::{Limit, Row};
use super::server::{Bench, BenchServer, Cpu};
use crate::process::Program;
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

/// A load, and the most instructions for one `tools/call` of it in each build. Clients with an SDK open a session or
/// speak 2026-07-28. Where more is allowed than is aimed at, the name says so: the aim is that of a release build.
const LOADS: [(&str, Way, &str, Most); 9] = [
    (
        "instructions per echo, unversioned (aim: 23,000)",
        Way::Http,
        "echo",
        most(28_700.0, 244_000.0),
    ),
    (
        "instructions per echo, session (aim: 27,000)",
        Way::Http,
        "session-echo",
        most(33_900.0, 301_000.0),
    ),
    (
        "instructions per echo, 2026-07-28 (aim: 30,000)",
        Way::Http,
        "modern-echo",
        most(38_200.0, 345_000.0),
    ),
    (
        "instructions per echo, stdio, unversioned",
        Way::Stdio,
        "--body ECHO",
        most(13_500.0, 106_500.0),
    ),
    (
        "instructions per echo, stdio, session",
        Way::Stdio,
        "--initialize INITIALIZE --body ECHO",
        most(14_000.0, 112_500.0),
    ),
    (
        "instructions per echo, stdio, 2026-07-28",
        Way::Stdio,
        "--body MODERN-ECHO",
        most(19_200.0, 163_000.0),
    ),
    (
        "instructions per relayed echo, unversioned (aim: 100,000)",
        Way::Gateway,
        "echo",
        most(104_500.0, 1_000_000.0),
    ),
    (
        "instructions per relayed echo, session (aim: 100,000)",
        Way::Gateway,
        "session-echo",
        most(116_000.0, 1_110_000.0),
    ),
    (
        "instructions per relayed echo, 2026-07-28 (aim: 100,000)",
        Way::Gateway,
        "modern-echo",
        most(126_000.0, 1_270_000.0),
    ),
];

/// The most instructions of one call, by the build of the programs.
#[derive(Clone, Copy)]
struct Most {
    release: f64,
    debug: f64,
}

const fn most(release: f64, debug: f64) -> Most {
    Most { release, debug }
}

/// The requests of two runs; the difference leaves out the start. A call of a debug build has ten times the
/// instructions.
const REQUESTS: [f64; 2] = [500.0, 8_500.0];
const REQUESTS_OF_DEBUG: [f64; 2] = [50.0, 350.0];

/// Counts instructions with callgrind.
struct Counter<'a> {
    bench: &'a Bench<'a>,
    callgrind: Callgrind,
}

/// Counts them.
///
/// # Errors
/// `Unavailable` without valgrind.
pub(super) fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let callgrind = Callgrind::install(bench.layout)?;
    let counter = Counter { bench, callgrind };
    let floor = counter.per_request(|requests| {
        let load = "--header JSON --body ECHO --path /150";
        counter.of_server("bench-floor", "", load, requests)
    })?;
    let row = |(work, way, load, most): (&str, Way, &str, Most)| {
        print_as!("bench", "counting {work}");
        let ours = counter.per_request(|requests| match way {
            Way::Http => counter.of_server(FIXTURE, "--token bench", load, requests),
            Way::Stdio => counter.of_child(load, requests),
            Way::Gateway => counter.of_gateway(load, requests),
        })?;
        let floor = matches!(way, Way::Http).then_some(floor);
        let most = match bench.is_release {
            true => most.release,
            false => most.debug,
        };
        Ok(Row::absolute(work, ours, floor, Limit::AtMost(most)))
    };
    LOADS.into_iter().map(row).collect()
}

impl Counter<'_> {
    /// Returns the instructions of one request; `count` counts those of a run with some requests.
    fn per_request(&self, count: impl Fn(f64) -> anyhow::Result<f64>) -> anyhow::Result<f64> {
        let [few, many] = match self.bench.is_release {
            true => REQUESTS,
            false => REQUESTS_OF_DEBUG,
        };
        Ok((count(many)? - count(few)?) / (many - few))
    }

    /// Counts a server over HTTP.
    fn of_server(&self, name: &str, words: &str, load: &str, requests: f64) -> anyhow::Result<f64> {
        let profile = self.bench.layout.fresh_log("bench-callgrind")?;
        let program = self.program(&profile, name)?.words(words).words("--port 0");
        let server = self
            .bench
            .launch(Cpu::Own, program, test_server::listens_on)?;
        self.load(server, load, requests)?;
        sum(&profile)
    }

    /// Counts a server over stdio.
    fn of_child(&self, load: &str, requests: f64) -> anyhow::Result<f64> {
        let profile = self.bench.layout.fresh_log("bench-callgrind")?;
        let child = self.command(&profile, FIXTURE).join(" ");
        let load = format!(
            "stdio {load} --expect OK --window 1 --millis 60000 --requests {requests} \
             -- {child} --stdio --log error"
        );
        self.bench.load(Cpu::Any, &load, 0)?;
        sum(&profile)
    }

    /// Counts the gateway, in front of a server over HTTP.
    fn of_gateway(&self, load: &str, requests: f64) -> anyhow::Result<f64> {
        let profile = self.bench.layout.fresh_log("bench-callgrind")?;
        let program = self.program(&profile, Gateway::PROGRAM)?;
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

    /// Returns one of our programs that is counted, on a processor of its own.
    fn program(&self, profile: &Path, name: &str) -> anyhow::Result<Program> {
        let command = self.command(profile, name);
        let program = self.bench.program(Cpu::Own, &command[0])?;
        Ok(program.args(&command[1..]))
    }

    fn command(&self, profile: &Path, name: &str) -> Vec<String> {
        self.callgrind.command(profile, self.bench.binary(name))
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
