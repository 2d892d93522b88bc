//! How many instructions one request takes: the same on every run, so that a test can hold it.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::peer::{Bench, Core};
use super::rows::{ECHO, ECHO_ANSWER, JSON, Row};
use crate::layout::on_path;

/// What one `tools/call` may take.
const MOST: u64 = 30_000;
/// Of two runs, so that what starting takes is in neither.
const FEW: u64 = 500;
const MANY: u64 = 8_500;

/// `None` where nothing counts instructions.
pub(super) fn row(bench: &Bench<'_>) -> anyhow::Result<Option<Row>> {
    let Some(valgrind) = on_path("valgrind") else {
        return Ok(None);
    };
    let of = |server: &str, args: &[&str]| -> anyhow::Result<u64> {
        let few = count(bench, &valgrind, server, args, FEW)?;
        let many = count(bench, &valgrind, server, args, MANY)?;
        Ok(many.saturating_sub(few) / (MANY - FEW))
    };
    let ours = of("mcp-conformance", &["--token", "bench"])?;
    let floor = of("bench-floor", &[])?;
    let target = format!("at most {MOST}");
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let ratio = ours as f64 / floor.max(1) as f64;
    Ok(Some(
        Row::judged("instructions per echo", target, ours <= MOST)
            .with(ours.to_string(), floor.to_string())
            .with_ratio(ratio),
    ))
}

fn count(
    bench: &Bench<'_>,
    valgrind: &Path,
    server: &str,
    args: &[&str],
    requests: u64,
) -> anyhow::Result<u64> {
    let profile = bench.layout.fresh_log("bench-callgrind")?;
    let program = [
        valgrind.to_string_lossy().into_owned(),
        "--tool=callgrind".to_owned(),
        format!("--callgrind-out-file={}", profile.display()),
        bench.path(server),
    ];
    let peer = bench.start(&program, args, Core::Own)?;
    let requests = requests.to_string();
    let load = ["http", "--requests", &requests, "--millis", "60000"];
    let echo = ["--header", JSON, "--body", ECHO];
    let path = match server {
        "bench-floor" => ["--path", "/150", "--expect", ""],
        _ => ["--path", "/mcp", "--expect", ECHO_ANSWER],
    };
    peer.load(bench, &[&load[..], &echo, &path].concat())?;
    // The profile is written when it ends.
    drop(peer);
    let profile = fs::read_to_string(profile)?;
    let total = profile.lines().find_map(|line| {
        line.strip_prefix("summary: ")
            .or_else(|| line.strip_prefix("totals: "))
    });
    Ok(total.context("no sum in the profile")?.trim().parse()?)
}
