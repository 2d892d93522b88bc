//! How many instructions one request takes: the same on every run, so that a test can hold it.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::load::{ECHO, ECHO_ANSWER, JSON, Load};
use super::peer::{Bench, Cpu, TOKEN};
use super::sample::Row;
use crate::fixture::FIXTURE;
use crate::layout::on_path;

/// The most that one `tools/call` may take.
const MAX_INSTRUCTIONS: u64 = 30_000;
/// The requests of two runs, so that what starting takes is in neither.
const FEW: u64 = 500;
const MANY: u64 = 8_500;

/// Counts them; `None` where nothing counts instructions.
pub(super) fn row(bench: &Bench<'_>) -> anyhow::Result<Option<Row>> {
    let Some(valgrind) = on_path("valgrind") else {
        return Ok(None);
    };
    let load = Load::new("http", ECHO).with("--header", JSON);
    let per_request = |server: &str, args: &[&str], load: Load| -> anyhow::Result<u64> {
        let count = |requests| {
            let load = load.clone().with("--requests", requests);
            count(
                bench,
                &valgrind,
                server,
                args,
                &load.with("--millis", 60_000),
            )
        };
        Ok(count(MANY)?.saturating_sub(count(FEW)?) / (MANY - FEW))
    };
    let answered = load.clone().with("--expect", ECHO_ANSWER);
    let ours = per_request(FIXTURE, &["--token", TOKEN], answered)?;
    let floor = per_request("bench-floor", &[], load.with("--path", "/150"))?;
    let target = format!("at most {MAX_INSTRUCTIONS}");
    let is_good = ours <= MAX_INSTRUCTIONS;
    let row = Row::new("instructions per echo", &ours.to_string(), &target, is_good);
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let ratio = ours as f64 / floor.max(1) as f64;
    Ok(Some(row.beside(floor.to_string(), ratio)))
}

fn count(
    bench: &Bench<'_>,
    valgrind: &Path,
    server: &str,
    args: &[&str],
    load: &Load,
) -> anyhow::Result<u64> {
    let profile = bench.layout.fresh_log("bench-callgrind")?;
    let program = bench
        .program(Cpu::Own, valgrind)?
        .args(["--tool=callgrind".to_owned()])
        .args([format!("--callgrind-out-file={}", profile.display())])
        .args([bench.binary(server)])
        .args(args);
    let peer = bench.start(Cpu::Own, program)?;
    peer.load(bench, load)?;
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
