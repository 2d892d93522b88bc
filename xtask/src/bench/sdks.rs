//! The official SDKs as peers: the same tool, under the same load.

use std::ffi::OsString;
use std::fs;

use anyhow::{bail, ensure};

use super::peer::{Bench, Cpu, Peer};
use crate::cargo;
use crate::fixture;

/// Builds and starts that for Rust.
pub(super) fn rmcp(bench: &Bench<'_>) -> anyhow::Result<Peer> {
    let target = bench.layout.backends().join("bench-rmcp");
    let build = "build --release --locked --manifest-path tests/bench/rmcp/Cargo.toml";
    let env = [("CARGO_TARGET_DIR", &*target.to_string_lossy())];
    let is_built = cargo::run(bench.layout, build, &env)?;
    ensure!(is_built, "it could not be built");
    bench.start(Cpu::Own, target.join("release/bench-rmcp"), "")
}

/// Starts another one, where `cargo xtask test` has installed it: a script of a folder of
/// `tests/clients`.
pub(super) fn installed(bench: &Bench<'_>, folder: &str, script: &str) -> anyhow::Result<Peer> {
    let installed = bench.layout.backends().join("clients").join(folder);
    let python = installed.join("bin/python");
    let program = if installed.join("node_modules").exists() {
        OsString::from("node")
    } else if python.exists() {
        python.into()
    } else {
        bail!("it is not installed: cargo xtask test does that");
    };
    // It has to lie beside what it imports.
    let source = bench.layout.root.join("tests/clients").join(folder);
    let file = installed.join(script);
    fs::copy(source.join(script), &file)?;
    let program = bench.program(Cpu::Own, program)?.args([file]);
    bench.launch(Cpu::Own, program, fixture::listens_on)
}
