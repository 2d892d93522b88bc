//! A Docker Engine: the one on the search path, or Debian's packages unpacked beside the rest.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{anyhow, bail};

use crate::console::Heartbeat;
use crate::layout::{Layout, create_dir, on_path, path_with};
use crate::process::Program;
use crate::services::last_line;

/// What is taken from Debian, and the folder it is unpacked in.
struct Kit {
    folder: &'static str,
    packages: &'static [&'static str],
    size: &'static str,
}

/// An engine that is installed but not running is used; the shell for the example image is always fetched.
fn kit() -> Kit {
    if on_path("dockerd").is_some() {
        let size = "busybox from Debian's packages, for an example container: 1 MB, seconds";
        return Kit {
            folder: "busybox",
            packages: &["busybox-static"],
            size,
        };
    }
    let size = "Docker Engine and busybox from Debian's packages: about 70 MB to fetch, 260 MB on disk, seconds";
    Kit {
        folder: "docker",
        packages: &["docker.io", "busybox-static"],
        size,
    }
}

/// Where the packages are unpacked.
pub(crate) fn dir(layout: &Layout) -> PathBuf {
    layout.backends().join(kit().folder)
}

pub(crate) fn obstacle(layout: &Layout) -> Option<String> {
    let other = "or set DOCKER_HOST to use another one";
    if !cfg!(target_os = "linux") {
        return Some(format!(
            "no Docker Engine found: install and start Docker, {other}"
        ));
    }
    // Root is who owns this process's folder in /proc.
    if fs::metadata("/proc/self").map_or(true, |own| own.uid() != 0) {
        return Some(format!(
            "no Docker Engine found, and only root can start one: start Docker, {other}"
        ));
    }
    let installed = dir(layout).join(".complete").exists() || on_path("dockerd").is_some();
    if !installed && on_path("apt-get").is_none() {
        return Some(format!(
            "no Docker Engine found: install Docker (dockerd), {other}"
        ));
    }
    None
}

pub(crate) fn to_fetch(layout: &Layout) -> Option<&'static str> {
    let installed = dir(layout).join(".complete").exists();
    (!installed && on_path("apt-get").is_some()).then(|| kit().size)
}

pub(crate) fn install(layout: &Layout) -> anyhow::Result<()> {
    if to_fetch(layout).is_none() {
        return Ok(());
    }
    let dir = dir(layout);
    layout.install_once("docker", &dir, || {
        let log = layout.fresh_log("docker-install")?;
        let archives = dir.join("debs");
        let engine = dir.join("engine");
        create_dir(&archives)?;
        create_dir(&engine)?;
        let run = |step: &str, program: &str, args: &[OsString]| {
            Program::new(program)?
                .args(args)
                .dir(&archives)
                .log_to(&log)?
                .run(&layout.stop, &mut Heartbeat::start("docker", step))
                .map_err(|_| anyhow!(failure(layout, step, &log)))
        };
        let mut packages = missing_packages();
        if packages.is_empty() {
            run("updating the list of Debian's packages", "apt-get", &["update".into()])?;
            packages = missing_packages();
        }
        if packages.is_empty() {
            bail!("Debian's package docker.io cannot be had here (no network?): install Docker, or set DOCKER_HOST");
        }
        let mut download: Vec<OsString> = vec!["download".into()];
        download.extend(packages.into_iter().map(OsString::from));
        if run("fetching Debian's packages", "apt-get", &download).is_err() {
            // The list may be older than the archive.
            run("updating the list of Debian's packages", "apt-get", &["update".into()])?;
            run("fetching Debian's packages", "apt-get", &download)?;
        }
        let unpack = "for archive in *.deb; do dpkg -x \"$archive\" \"$0\" || exit 1; done";
        run("unpacking them", "sh", &["-c".into(), unpack.into(), engine.clone().into()])?;
        fs::remove_dir_all(&archives)?;
        link_iptables(&engine)
    })
}

fn failure(layout: &Layout, step: &str, log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    if ["resolving", "Could not resolve", "Could not connect"]
        .iter()
        .any(|sign| text.contains(sign))
    {
        return format!("{step}: no network, apt-get could not reach Debian's archive");
    }
    format!(
        "{step}: {} (all of it: {})",
        last_line(log),
        layout.shown(log)
    )
}

/// What `apt-get install` would add to this machine. The packages themselves are
/// always among them, even where they are installed.
fn missing_packages() -> Vec<String> {
    let simulated = Command::new("apt-get")
        .args([
            "install",
            "--simulate",
            "--no-install-recommends",
            "--reinstall",
        ])
        .args(kit().packages)
        .output();
    let Ok(output) = simulated else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .filter_map(|line| {
            line.strip_prefix("Inst ")?
                .split(' ')
                .next()
                .map(str::to_owned)
        })
        .collect()
}

/// The names that a package's own script would link.
fn link_iptables(engine: &Path) -> anyhow::Result<()> {
    for name in ["iptables", "ip6tables"] {
        let link = engine.join("usr/sbin").join(name);
        if !link.exists() && engine.join("usr/sbin/xtables-nft-multi").exists() {
            symlink("xtables-nft-multi", link)?;
        }
    }
    Ok(())
}

/// The container runtime, which other engines share.
pub(super) fn runtime(layout: &Layout) -> Option<PathBuf> {
    let unpacked =
        ["usr/sbin/runc", "usr/bin/runc"].map(|file| dir(layout).join("engine").join(file));
    let found = unpacked.into_iter().find(|file| file.exists());
    found.or_else(|| on_path("runc"))
}

/// Makes the unpacked programs find each other and their libraries.
pub(crate) fn environment(layout: &Layout) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    let engine = dir(layout).join("engine");
    let libraries = ["usr/lib", "lib"].map(|lib| {
        engine
            .join(lib)
            .join(format!("{}-linux-gnu", std::env::consts::ARCH))
    });
    let programs = ["usr/sbin", "usr/bin", "sbin", "bin"].map(|folder| engine.join(folder));
    Ok(vec![
        ("PATH", path_with(programs)?),
        ("XTABLES_LIBDIR", libraries[0].join("xtables").into()),
        ("LD_LIBRARY_PATH", std::env::join_paths(libraries)?),
    ])
}
