//! Unpacks Debian packages into a folder, without touching the packages that are installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::Package;
use crate::layout::{on_path, path_with};
use crate::process::{Program, output};
use crate::services::Environment;

pub(crate) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Downloads and unpacks packages into the folder `root`; `$0` is the release, or empty for that of this machine, and the
/// others are the names. Lists of another release leave those of this machine unchanged.
const INSTALL: &str = r#"
    set -e
    mkdir -p archives/partial lists/partial root/usr/sbin
    options="-o APT::Sandbox::User=root"
    names() { apt-get install --simulate --no-install-recommends --reinstall $wanted | sed -n 's/^Inst \([^ ]*\).*/\1/p'; }
    wanted=$*
    if [ -n "$0" ]; then
        echo "deb [signed-by=$KEYRING] $ARCHIVE $0 main" > sources.list
        options="$options -o Dir::Etc::SourceList=$PWD/sources.list -o Dir::Etc::SourceParts=/dev/null
            -o Dir::State::Lists=$PWD/lists -o Dir::Cache=$PWD/archives"
        names() { echo $wanted; }
        apt-get $options update
    fi
    download() {
        found=$(names) && [ -n "$found" ] && (cd archives && apt-get $options download $found)
    }
    # The list may be missing, or older than the archive.
    download || { apt-get $options update; download; }
    for archive in archives/*.deb; do dpkg -x "$archive" root; done
    rm -r archives lists
    # The links that a package's own script would make.
    if cd root/usr/sbin && test -e xtables-nft-multi; then
        for name in iptables ip6tables; do test -e $name || ln -sf xtables-nft-multi $name; done
    fi
"#;

/// A set of packages.
pub(crate) struct DebianPackages(
    /// The prefix of their lines on the terminal, and their folder below `target/backends`.
    pub(crate) &'static str,
    /// The release from which they alone are taken. If it is empty, from this machine's own, with the packages that they
    /// need and that are not installed.
    pub(crate) &'static str,
    /// Their names, separated by spaces.
    pub(crate) &'static str,
);

impl DebianPackages {
    /// Returns the folder that looks like the root of a Debian.
    pub(crate) fn root(&self) -> PathBuf {
        self.package().dir.join("root")
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.package().is_complete()
    }

    fn package(&self) -> Package {
        Package::new(self.0, self.0)
    }

    /// Downloads and unpacks them, once.
    pub(crate) fn install(&self) -> Result<()> {
        let Self(_, release, names) = self;
        let is_own = release.is_empty();
        if on_path("apt-get").is_none() || !is_own && !Path::new(KEYRING).exists() {
            bail!("it needs Debian's packages, and this is no Debian");
        }
        let package = self.package();
        package.install("", |dir| {
            let archive = if is_own { String::new() } else { archive()? };
            let install = Program::new("sh")
                .args(["-c", INSTALL, release])
                .words(names)
                .envs([("KEYRING", KEYRING), ("ARCHIVE", &archive), ("LC_ALL", "C")])
                .dir(dir);
            package.step("unpacking Debian's packages", 0, install)
        })
    }
}

/// Returns the address of Debian's archive that this machine uses.
pub(crate) fn archive() -> Result<String> {
    let mut apt = Command::new("apt-get");
    let output = output(apt.args(["indextargets", "--format", "$(REPO_URI)"]))?;
    let mut addresses = output.lines();
    let archive = addresses.find(|address| address.trim_end_matches('/').ends_with("/debian"));
    let archive = archive.context("no source of this machine is Debian's archive")?;
    Ok(archive.to_owned())
}

/// Returns the program of this name, and the variables by which it finds its libraries: the installed one, or that of
/// the packages at `path` in their root.
pub(crate) fn installed_or(
    packages: &DebianPackages,
    name: &str,
    path: &str,
) -> Result<(PathBuf, Environment)> {
    if let Some(installed) = on_path(name) {
        return Ok((installed, Environment::new()));
    }
    packages.install()?;
    let root = packages.root();
    Ok((root.join(path), environment(&[root])?))
}

/// Returns the variables with which programs in these roots find each other and their libraries, in the first root first.
pub(crate) fn environment(roots: &[PathBuf]) -> Result<Environment> {
    let arch = std::env::consts::ARCH;
    let programs = roots
        .iter()
        .flat_map(|root| ["usr/sbin", "usr/bin", "sbin", "bin"].map(|folder| root.join(folder)));
    let libraries = roots.iter().flat_map(|root| {
        ["usr/lib", "lib"].map(|lib| root.join(format!("{lib}/{arch}-linux-gnu")))
    });
    Ok(vec![
        ("PATH", path_with(programs)?),
        ("LD_LIBRARY_PATH", std::env::join_paths(libraries)?),
    ])
}
