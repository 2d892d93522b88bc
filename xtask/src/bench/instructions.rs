//! Counts the instructions of one request: the same on every run, so that a test can check them.

use std::fs;

use anyhow::Context;

use super::row::{Limit, Row};
use super::server::{Bench, Cpu};
use crate::layout::on_path;
use crate::test_server::{self, FIXTURE};

/// A load of one era, and the most instructions for one `tools/call` of it. Clients with an SDK speak one
/// of the last two.
const ERAS: [(&str, &str, f64); 3] = [
    ("instructions per echo, unversioned", "echo", 29_500.0),
    ("instructions per echo, session", "session-echo", 35_300.0),
    ("instructions per echo, 2026-07-28", "modern-echo", 41_500.0),
];
/// The requests of two runs; the difference leaves out the start.
const FEW_REQUESTS: f64 = 500.0;
const MANY_REQUESTS: f64 = 8_500.0;

/// Counts them; no rows without valgrind.
pub(super) fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let Some(valgrind) = on_path("valgrind") else {
        return Ok(Vec::new());
    };
    let count = |server: &str, words: &str, load: &str| {
        let profile = bench.layout.fresh_log("bench-callgrind")?;
        let program = bench
            .program(Cpu::Own, &valgrind)?
            .args(["--tool=callgrind".to_owned()])
            .args([format!("--callgrind-out-file={}", profile.display())])
            .args([bench.binary(server)])
            .words(words)
            .words("--port 0");
        let server = bench.launch(Cpu::Own, program, test_server::listens_on)?;
        server.load(bench, load, 0)?;
        // It writes the profile when it ends.
        drop(server);
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
    };
    let per_request = |server: &str, words: &str, load: &str| {
        let count = |requests| {
            count(
                server,
                words,
                &format!("http {load} --millis 60000 --requests {requests}"),
            )
        };
        let difference = count(MANY_REQUESTS)? - count(FEW_REQUESTS)?;
        anyhow::Ok(difference / (MANY_REQUESTS - FEW_REQUESTS))
    };
    let floor = per_request("bench-floor", "", "--header JSON --body ECHO --path /150")?;
    let row = |(work, load, most)| {
        let ours = per_request(FIXTURE, "--token bench", load)?;
        let limit = Limit::AtMost(most);
        Ok(Row::absolute(work, ours, Some(floor), limit))
    };
    ERAS.into_iter().map(row).collect()
}
