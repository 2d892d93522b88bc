//! A second engine for the tests, of a newer generation: Debian's next release, unpacked beside the
//! first engine, whose container runtime and tools it shares.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::install;
use crate::console::Heartbeat;
use crate::layout::{Layout, create_dir, on_path, path_with};
use crate::process::Program;

/// Docker 26.1, which speaks version 1.45 of the interface; the first one speaks 1.41.
const SUITE: &str = "trixie";
const PACKAGES: [&str; 2] = ["docker.io", "containerd"];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

fn dir(layout: &Layout) -> PathBuf {
    layout.backends().join("docker-26")
}

/// Fetches and unpacks it; the lists and archives of this machine's own packages are left alone.
pub(crate) fn install(layout: &Layout) -> anyhow::Result<()> {
    if on_path("apt-get").is_none() || !Path::new(KEYRING).exists() {
        bail!("it is unpacked from Debian's packages, and this is no Debian");
    }
    let dir = dir(layout);
    layout.install_once("docker-26", &dir, || {
        let log = layout.fresh_log("docker-26-install")?;
        let (lists, archives) = (dir.join("lists"), dir.join("archives"));
        for folder in [
            lists.join("partial"),
            archives.join("partial"),
            dir.join("engine"),
        ] {
            create_dir(&folder)?;
        }
        let sources = dir.join("sources.list");
        let source =
            format!("deb [signed-by={KEYRING}] http://deb.debian.org/debian {SUITE} main\n");
        fs::write(&sources, source)?;
        let own = [
            format!("Dir::Etc::SourceList={}", sources.display()),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", lists.display()),
            format!("Dir::Cache={}", archives.display()),
            "APT::Sandbox::User=root".to_owned(),
        ];
        let own = own.iter().flat_map(|option| ["-o", option]);
        let run = |step: &str, program: &str, args: Vec<&str>| {
            Program::new(program)?
                .args(args)
                .dir(&archives)
                .log_to(&log)?
                .run(&layout.stop, &mut Heartbeat::start("docker-26", step))
                .with_context(|| format!("{step}: see {}", layout.shown(&log)))
        };
        let apt = |words: &[&'static str]| own.clone().chain(words.iter().copied()).collect();
        run("reading Debian's list", "apt-get", apt(&["update"]))?;
        let download = [&["download"][..], &PACKAGES].concat();
        run("fetching the packages", "apt-get", apt(&download))?;
        let unpack = "for archive in *.deb; do dpkg -x \"$archive\" ../engine || exit 1; done";
        run("unpacking them", "sh", vec!["-c", unpack])?;
        fs::remove_dir_all(&archives)?;
        fs::remove_dir_all(&lists)?;
        Ok(())
    })?;
    link_runtime(layout)
}

/// Its own container runtime wants a newer C library than this machine may have.
fn link_runtime(layout: &Layout) -> anyhow::Result<()> {
    let unpacked = ["usr/sbin/runc", "usr/bin/runc"]
        .map(|file| install::dir(layout).join("engine").join(file));
    let found = unpacked.into_iter().find(|file| file.exists());
    let runtime = found
        .or_else(|| on_path("runc"))
        .context("there is no runc")?;
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
