//! Installs a Debian into a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::Package;
use super::debian::DebianPackages;
use crate::layout::Layout;
use crate::process::Program;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const DEBOOTSTRAP: DebianPackages = DebianPackages::new("debootstrap", &["debootstrap"]);

/// The release of [`fresh`].
const STABLE: &str = "stable";

/// Installs the base of this release into `root`, which belongs to `package`.
///
/// # Errors
/// On a machine that is no Debian, or without access to its archive.
pub(crate) fn bootstrap(
    layout: &Layout,
    package: &Package<'_>,
    root: &Path,
    release: &str,
) -> anyhow::Result<()> {
    DEBOOTSTRAP.install(layout)?;
    let debootstrap = DEBOOTSTRAP.root(layout);
    let program = Program::new("sh")?
        .args([debootstrap.join("usr/sbin/debootstrap")])
        .words(&format!("--variant=minbase --keyring={KEYRING} {release}"))
        .args([root.as_os_str(), mirror()?.as_ref()])
        .envs([("DEBOOTSTRAP_DIR", debootstrap.join("usr/share/debootstrap"))]);
    package.step("installing a Debian (1 minute)", program)
}

/// Configures the package manager in this root as that of this machine.
pub(crate) fn configure_apt(root: &Path) -> anyhow::Result<()> {
    let output = Command::new("apt-config")
        .args(["dump", "Acquire"])
        .output()?;
    ensure!(output.status.success(), "apt-config dump failed");
    fs::write(root.join("etc/apt/apt.conf.d/90machine"), output.stdout)?;
    fs::copy("/etc/resolv.conf", root.join("etc/resolv.conf"))?;
    Ok(())
}

/// Returns the root of a Debian that has only its base, installed once. Copies of it are to be changed, not it.
///
/// # Errors
/// As [`bootstrap`].
pub(crate) fn fresh(layout: &Layout) -> anyhow::Result<PathBuf> {
    let package = Package::new(layout, "debian", "debian");
    let root = package.dir.join("root");
    package.install(STABLE, |_| bootstrap(layout, &package, &root, STABLE))?;
    Ok(root)
}

/// Returns the mirror from which this machine takes Debian's packages.
fn mirror() -> anyhow::Result<String> {
    let targets = "indextargets --format $(SITE) Origin:Debian Label:Debian Component:main";
    let filters = targets.split(' ').map(|word| word.replacen(':', ": ", 1));
    let output = Command::new("apt-get").args(filters).output()?;
    ensure!(output.status.success(), "apt-get indextargets failed");
    let sites = String::from_utf8_lossy(&output.stdout);
    let site = sites.lines().next().map(str::to_owned);
    site.context("apt-get knows no mirror of Debian; run `apt-get update`")
}
