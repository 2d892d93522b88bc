//! `cargo xtask bench`: what a request costs, as ratios to a bare hyper server that is measured in
//! the same run, beside the official Rust SDK; and what the gateway adds, as ratios to nginx. What
//! the load is lies in `tests/bench`.

mod gateway;
mod instructions;
mod nginx;
mod peer;
mod rmcp;
mod rows;
mod sample;
mod sdks;

use std::fs;
use std::process::ExitCode;

use crate::chores;
use crate::console::{line, say};
use crate::layout::Layout;
use crate::table;

use peer::Bench;
use rows::Row;

const BUILD: [&str; 7] = [
    "build",
    "--release",
    "--package",
    "tests",
    "--package",
    "mcp-gateway",
    "--bins",
];

/// Builds, measures and prints the table. Only `instructions`, which do not depend on who else works
/// on the machine, decide about the exit code.
pub(crate) fn chore(layout: &Layout, instructions_only: bool) -> anyhow::Result<ExitCode> {
    if !chores::cargo(layout, &BUILD, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let bench = Bench::new(layout);
    let mut rows = Vec::new();
    if !instructions_only {
        say(
            "bench",
            format_args!("load of the machine before: {}", load()),
        );
        rows.extend(rows::http(&bench)?);
        rows.extend(rows::memory(&bench)?);
        rows.extend(rows::stdio(&bench)?);
        rows.extend(rows::start(&bench)?);
        match rmcp::rows(&bench) {
            Ok(peer) => rows.extend(peer),
            Err(reason) => say("bench", format_args!("no comparison with rmcp: {reason:#}")),
        }
        for peer in sdks::rows(&bench)? {
            match peer {
                Ok(row) => rows.push(row),
                Err(name) => say(
                    "bench",
                    format_args!("the {name} SDK is not installed: cargo xtask test does that"),
                ),
            }
        }
        let (gateway, missing) = gateway::rows(&bench)?;
        rows.extend(gateway);
        if let Some(reason) = missing {
            say("bench", format_args!("no gateway beside nginx: {reason}"));
        }
        say(
            "bench",
            format_args!("load of the machine after: {}", load()),
        );
    }
    let counted = instructions::row(&bench)?;
    let missed = counted.as_ref().is_some_and(Row::is_missed);
    match counted {
        Some(row) => rows.push(row),
        None => say(
            "bench",
            "instructions are not counted: there is no valgrind here",
        ),
    }
    let cells: Vec<_> = std::iter::once(rows::heading())
        .chain(rows.iter().map(Row::cells))
        .collect();
    line(format_args!("\n{}", table::render(&cells)));
    Ok(match instructions_only && missed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// How many processes want to run.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}
