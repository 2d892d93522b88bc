//! How many instructions one request takes: the same on every run, so that a test can hold it.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::peer::{Bench, Cpu};
use super::row::{Limit, Row};
use crate::fixture::{self, FIXTURE};
use crate::layout::on_path;

/// The most that one `tools/call` may take.
const MAX_INSTRUCTIONS: Limit = Limit::AtMost(30_000.0);
/// The requests of two runs, so that what starting takes is in neither.
const FEW: f64 = 500.0;
const MANY: f64 = 8_500.0;

const LOAD: &str = "http --header JSON --body ECHO --millis 60000";

/// Counts them; `None` where nothing counts instructions.
pub(super) fn row(bench: &Bench<'_>) -> anyhow::Result<Option<Row>> {
    let Some(valgrind) = on_path("valgrind") else {
        return Ok(None);
    };
    let per_request = |server: &str, words: &str, load: &str| {
        let count = |requests| {
            let load = format!("{LOAD} {load} --requests {requests}");
            count(bench, &valgrind, server, words, &load)
        };
        anyhow::Ok((count(MANY)? - count(FEW)?) / (MANY - FEW))
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

fn count(
    bench: &Bench<'_>,
    valgrind: &Path,
    server: &str,
    words: &str,
    load: &str,
) -> anyhow::Result<f64> {
    let profile = bench.layout.fresh_log("bench-callgrind")?;
    let program = bench
        .program(Cpu::Own, valgrind)?
        .args(["--tool=callgrind".to_owned()])
        .args([format!("--callgrind-out-file={}", profile.display())])
        .args([bench.binary(server)])
        .words(words)
        .words("--port 0");
    let peer = bench.launch(Cpu::Own, program, fixture::listens_on)?;
    peer.load(bench, load, 0)?;
    // The profile is written when it ends.
    drop(peer);
    let profile = fs::read_to_string(profile)?;
    let mut lines = profile.lines();
    let total = lines.find_map(|line| {
        line.strip_prefix("summary: ")
            .or_else(|| line.strip_prefix("totals: "))
    });
    Ok(total.context("no sum in the profile")?.trim().parse()?)
}
