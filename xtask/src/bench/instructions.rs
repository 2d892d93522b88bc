//! Counts the instructions of one request: the same on every run, so that a test can check them.

use std::fs;

use anyhow::Context;

use super::row::{Limit, Row};
use super::server::{Bench, Cpu};
use crate::layout::on_path;
use crate::test_server::{self, FIXTURE};

/// For one `tools/call`.
const MAX_INSTRUCTIONS: Limit = Limit::AtMost(30_000.0);
/// The requests of two runs; the difference leaves out the start.
const FEW_REQUESTS: f64 = 500.0;
const MANY_REQUESTS: f64 = 8_500.0;

const LOAD: &str = "http --header JSON --body ECHO --millis 60000";

/// Counts them; `None` without valgrind.
pub(super) fn measure(bench: &Bench<'_>) -> anyhow::Result<Option<Row>> {
    let Some(valgrind) = on_path("valgrind") else {
        return Ok(None);
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
                &format!("{LOAD} {load} --requests {requests}"),
            )
        };
        let difference = count(MANY_REQUESTS)? - count(FEW_REQUESTS)?;
        anyhow::Ok(difference / (MANY_REQUESTS - FEW_REQUESTS))
    };
    let ours = per_request(FIXTURE, "--token bench", "--expect OK")?;
    let floor = per_request("bench-floor", "", "--path /150")?;
    let work = "instructions per echo";
    Ok(Some(Row::absolute(
        work,
        ours,
        Some(floor),
        MAX_INSTRUCTIONS,
    )))
}
