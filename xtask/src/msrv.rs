//! `cargo xtask msrv`: compiles the workspace with the oldest toolchain that it promises to compile with.

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};

use crate::cargo::exit_code;
use crate::console::Heartbeat;
use crate::layout::{Layout, on_path};
use crate::process::Program;

/// Everything, also the tests.
const CHECK: &str = "check --workspace --all-targets --all-features --locked";

/// Installs that toolchain beside those of the user, if it is missing, and compiles with it.
///
/// # Errors
/// When the toolchain cannot be installed.
pub(crate) fn run(layout: &Layout) -> anyhow::Result<ExitCode> {
    // The version that Cargo.toml gives this program, too.
    let oldest = env!("CARGO_PKG_RUST_VERSION");
    let toolchain = format!("{oldest}.0");
    on_path("rustup").context("rustup is needed, which has several toolchains")?;
    let dir = layout.backends().join("msrv");
    let env: [(&str, OsString); 3] = [
        ("RUSTUP_HOME", dir.join("rustup").into()),
        ("RUSTUP_TOOLCHAIN", toolchain.clone().into()),
        ("CARGO_TARGET_DIR", dir.join("target").into()),
    ];
    let mut version = Command::new("rustup");
    let version = version.args(["run", &toolchain, "rustc", "--version"]);
    let version = version.envs(env.clone()).stderr(Stdio::null());
    if !version.output()?.status.success() {
        let step = format!("installing Rust {toolchain} (560 MB)");
        let words = format!("toolchain install {toolchain} --profile minimal --no-self-update");
        let install = Program::new("rustup")?.words(&words).envs(env.clone());
        let is_there = install.succeeds(&layout.shutdown, Some(Heartbeat::start("msrv", step)))?;
        ensure!(is_there, "Rust {toolchain} cannot be installed");
    }
    let cargo = Program::new("cargo")?.words(CHECK).dir(&layout.root);
    let is_good = cargo.envs(env).succeeds(&layout.shutdown, None)?;
    let verdict = match is_good {
        true => "ok",
        false => "FAIL",
    };
    print_line!("{verdict} with Rust {oldest}, the `rust-version` of Cargo.toml");
    Ok(exit_code(is_good))
}
