//! A second engine for the tests, of a newer generation: Debian's next release, unpacked beside the
//! first engine, whose container runtime and tools it shares.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::Context;

use super::{debian, install};
use crate::layout::{Layout, create_dir, path_with};

/// Docker 26.1, which speaks version 1.45 of the interface; the first engine speaks 1.41.
const SUITE: &str = "trixie";
const PACKAGES: [&str; 2] = ["docker.io", "containerd"];

fn dir(layout: &Layout) -> PathBuf {
    layout.backends().join("docker-26")
}

/// Fetches and unpacks it.
pub(crate) fn install(layout: &Layout) -> anyhow::Result<()> {
    debian::unpack(layout, "docker-26", &dir(layout), SUITE, &PACKAGES)?;
    link_runtime(layout)
}

/// Its own container runtime wants a newer C library than this machine may have.
fn link_runtime(layout: &Layout) -> anyhow::Result<()> {
    let runtime = install::runtime(layout).context("there is no runc")?;
    let bin = dir(layout).join("bin");
    create_dir(&bin)?;
    let link = bin.join("runc");
    if !link.is_symlink() {
        symlink(runtime, link)?;
    }
    Ok(())
}

/// Its programs before those of the first engine.
pub(super) fn environment(layout: &Layout) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    let engine = dir(layout).join("engine");
    let mut environment = install::environment(layout)?;
    for (name, value) in &mut environment {
        if *name == "PATH" {
            let first = [
                dir(layout).join("bin"),
                engine.join("usr/sbin"),
                engine.join("usr/bin"),
            ];
            let rest = path_with([])?;
            let before = std::env::split_paths(value).collect::<Vec<_>>();
            *value = std::env::join_paths(
                first
                    .into_iter()
                    .chain(before)
                    .chain(std::env::split_paths(&rest)),
            )?;
        }
    }
    Ok(environment)
}

/// What forwards published ports, which the engine does not look for on its search path.
pub(super) fn proxy(layout: &Layout) -> PathBuf {
    dir(layout).join("engine/usr/sbin/docker-proxy")
}
