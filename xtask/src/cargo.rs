//! Calls cargo, also for the commands `check` and `codegen`.

use std::process::ExitCode;

use anyhow::bail;

use crate::checks;
use crate::counts::TestCounts;
use crate::install::unavailable;
use crate::layout::{Layout, on_path};
use crate::process::Program;

pub(crate) const FMT: &str = "fmt --all -- --check --color never";

pub(crate) const CLIPPY: &str = "clippy --workspace --all-targets -- -D warnings";

pub(crate) const BUILD: &str = "build --workspace --bins --examples";

pub(crate) const DOC: &str = "doc --workspace --no-deps --document-private-items";

/// Private items are documented, too, so that links to them work. The comments of options are the text of `--help`, where
/// a URL has no angle brackets.
pub(crate) const DOC_FLAGS: &str =
    "-D warnings -A rustdoc::private_intra_doc_links -A rustdoc::bare_urls";

/// Runs the tests that compare generated files, which are named `…_are_fresh`.
const UPDATE: &str = "test --workspace --test it -- are_fresh";

pub(crate) fn check(layout: &Layout) -> anyhow::Result<ExitCode> {
    for words in [FMT, CLIPPY, DOC] {
        if !run(layout, words, &[("RUSTDOCFLAGS", DOC_FLAGS)])? {
            return Ok(ExitCode::FAILURE);
        }
    }
    let spelling = checks::spelling(layout).map(|()| TestCounts::PASSED);
    let spelling = TestCounts::from_result("spelling", spelling);
    Ok(exit_code(spelling.failed == 0))
}

/// Updates the snapshots and the generated tables of the pages, by the tests that compare them.
pub(crate) fn codegen(layout: &Layout) -> anyhow::Result<ExitCode> {
    let done = run(layout, BUILD, &[])? && run(layout, UPDATE, &[("INSTA_UPDATE", "always")])?;
    Ok(exit_code(done))
}

/// Compiles all crates and programs for Windows, without linking them. The workflows run them there, and on macOS.
pub(crate) fn check_windows(layout: &Layout) -> anyhow::Result<ExitCode> {
    const TARGET: &str = "x86_64-pc-windows-gnu";
    let library = Program::new("sh")?
        .args([
            "-c",
            r#"test -d "$(rustc --print sysroot)/lib/rustlib/$0""#,
            TARGET,
        ])
        .dir(&layout.root);
    if !library.succeeds(&layout.shutdown, None)? {
        bail!(unavailable(format!(
            "the standard library of {TARGET} is missing: rustup target add {TARGET}"
        )));
    }
    if on_path("x86_64-w64-mingw32-gcc").is_none() {
        bail!(unavailable(
            "the C compiler for Windows is missing: Debian's package gcc-mingw-w64-x86-64"
        ));
    }
    let words =
        format!("check --locked --workspace --exclude tests --exclude xtask --target {TARGET}");
    Ok(exit_code(run(layout, &words, &[])?))
}

/// Runs cargo with its output on the terminal; returns true if it succeeded.
pub(crate) fn run(layout: &Layout, words: &str, env: &[(&str, &str)]) -> anyhow::Result<bool> {
    let cargo = Program::new("cargo")?.words(words);
    let cargo = cargo.envs(env.iter().copied()).dir(&layout.root);
    cargo.succeeds(&layout.shutdown, None)
}

pub(crate) fn exit_code(is_good: bool) -> ExitCode {
    if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
