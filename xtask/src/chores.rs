//! The small chores: one or a few calls of cargo, their output straight to the terminal.

use std::process::ExitCode;

use crate::layout::Layout;
use crate::process::Program;

/// Format, lints and documentation.
pub(crate) fn check(layout: &Layout) -> anyhow::Result<ExitCode> {
    let doc = [
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ];
    for args in [&crate::test::FMT[..], &crate::test::CLIPPY, &doc] {
        if !cargo(layout, args, &[("RUSTDOCFLAGS", "-D warnings")])? {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The tests that compare generated files are named `…_are_fresh`.
const UPDATE: [&str; 5] = ["test", "--package", "tests", "--", "are_fresh"];

/// Snapshots and the generated parts of the README, written by the tests that compare them.
pub(crate) fn codegen(layout: &Layout) -> anyhow::Result<ExitCode> {
    let done = cargo(layout, &["build", "--workspace", "--bins"], &[])?
        && cargo(layout, &UPDATE, &[("UPDATE", "1")])?;
    Ok(if done {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// True when this call of cargo succeeded.
pub(crate) fn cargo(layout: &Layout, args: &[&str], env: &[(&str, &str)]) -> anyhow::Result<bool> {
    let env = env.iter().copied();
    let cargo = Program::new("cargo")?
        .args(args)
        .envs(env)
        .dir(&layout.root)
        .spawn()?;
    Ok(cargo.wait(&layout.stop, || {})?.success())
}
