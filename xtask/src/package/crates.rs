//! `.crate` archives, from which `cargo install` builds the programs. They are published from the tag by `cargo
//! publish`, and so are not files of the release.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{Build, Product, WHO};
use crate::console::Heartbeat;
use crate::process::Program;

/// All crates but those that are not published. The check compiles them, from the archives.
const PACKAGE: &str =
    "package --workspace --exclude tests --exclude xtask --no-verify --locked --allow-dirty";

pub(super) fn build(_: &[Product], build: &Build, _: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let dir = build.layout.target.join("package");
    for old in archives(&dir)? {
        fs::remove_file(old)?;
    }
    let cargo = Program::new("cargo")?.words(PACKAGE);
    let cargo = cargo.dir(&build.layout.root);
    cargo
        .run(
            &build.layout.shutdown,
            Heartbeat::start(WHO, "cargo package"),
        )
        .context("cargo package")?;
    archives(&dir)
}

fn archives(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut archives = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "crate")
        {
            archives.push(path);
        }
    }
    archives.sort();
    Ok(archives)
}
