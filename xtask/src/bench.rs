//! `cargo xtask bench`: what a request costs, as ratios to a bare hyper server that is measured in
//! the same run, beside the official Rust SDK; and what the gateway adds, as ratios to nginx. What
//! the load is lies in `tests/bench`.

mod instructions;
mod load;
mod peer;
mod proxies;
mod row;
mod rows;
mod sample;
mod sdks;

use std::fmt::Display;
use std::fs;
use std::process::ExitCode;

use crate::args::Options;
use crate::cargo;
use crate::console::{line, say};
use crate::layout::Layout;
use crate::table;

use peer::Bench;
use row::Row;

const BUILD: &str = "build --release --package tests --package mcp-gateway --bins";

/// Builds, measures and prints the table. Only `instructions`, which do not depend on who else works
/// on the machine, decide about the exit code.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    if !cargo::run(layout, BUILD, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let bench = Bench::new(layout);
    let mut rows = Vec::new();
    if !options.instructions {
        note(format_args!("load of the machine before: {}", load()));
        rows.extend(rows::absolute(&bench)?);
        rows.extend(rows::comparisons(&bench)?);
        note(format_args!("load of the machine after: {}", load()));
    }
    let counted = instructions::row(&bench)?;
    let is_missed = counted.as_ref().is_some_and(Row::is_missed);
    if counted.is_none() {
        note("instructions are not counted: there is no valgrind here");
    }
    rows.extend(counted);
    let cells = rows.iter().map(Row::cells);
    let cells: Vec<_> = std::iter::once(row::heading()).chain(cells).collect();
    line(format_args!("\n{}", table::render(&cells)));
    Ok(cargo::exit_code(!(options.instructions && is_missed)))
}

fn note(text: impl Display) {
    say("bench", text);
}

/// How many processes want to run.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}
