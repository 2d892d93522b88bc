//! Debian's packages, unpacked in a folder of their own: those that this machine has installed are
//! left alone.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::bail;

use super::{Package, Unavailable};
use crate::layout::{Layout, create_dir, on_path, path_with};
use crate::process::Program;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Unpacks the archives of this folder into another, and makes the links that a package's own script
/// would make.
const UNPACK: &str = r#"
    set -e
    for archive in *.deb; do dpkg -x "$archive" "$0"; done
    if cd "$0/usr/sbin" && test -e xtables-nft-multi; then
        for name in iptables ip6tables; do test -e $name || ln -sf xtables-nft-multi $name; done
    fi
"#;

/// A set of packages, and the folder that they are unpacked in.
#[derive(Debug)]
pub(crate) struct Packages {
    /// Stands before the lines about it.
    pub(crate) who: &'static str,
    /// Below `target/backends`.
    pub(crate) folder: &'static str,
    /// Another release than this machine's, from which these packages alone are taken. From this
    /// machine's own come also the packages that they need and that are not installed.
    pub(crate) suite: Option<&'static str>,
    /// Their names.
    pub(crate) names: &'static [&'static str],
}

impl Packages {
    /// Returns the folder that looks like the root of a Debian.
    pub(crate) fn root(&self, layout: &Layout) -> PathBuf {
        self.package(layout).dir.join("root")
    }

    /// Returns true once they are unpacked.
    pub(crate) fn is_complete(&self, layout: &Layout) -> bool {
        self.package(layout).is_complete()
    }

    fn package<'a>(&self, layout: &'a Layout) -> Package<'a> {
        Package::new(layout, self.who, self.folder)
    }

    /// Fetches and unpacks them, once.
    ///
    /// # Errors
    /// On a machine without Debian's package manager or without a way to its archive.
    pub(crate) fn install(&self, layout: &Layout) -> anyhow::Result<()> {
        let is_debian = self.suite.is_none() || Path::new(KEYRING).exists();
        if on_path("apt-get").is_none() || !is_debian {
            let why = "it is unpacked from Debian's packages, and this is no Debian";
            bail!(Unavailable(why.to_owned()));
        }
        let package = self.package(layout);
        package.install("", |dir| {
            let archives = dir.join("archives");
            create_dir(&archives.join("partial"))?;
            create_dir(&dir.join("root/usr/sbin"))?;
            let options = match self.suite {
                Some(suite) => own_lists(dir, suite)?,
                None => Vec::new(),
            };
            let apt = |step: &str, args: &[&str]| {
                let apt = Program::new("apt-get")?.args(&options).args(args);
                package.step(step, apt.dir(&archives))
            };
            let update = || apt("reading Debian's list", &["update"]);
            let wanted = match self.suite {
                Some(_) => {
                    update()?;
                    self.names.iter().copied().map(str::to_owned).collect()
                }
                None => self.with_missing(update)?,
            };
            let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
            let download = [&["download"], &names[..]].concat();
            let step = "fetching Debian's packages";
            if apt(step, &download).is_err() {
                // The list may be older than the archive.
                update()?;
                apt(step, &download)?;
            }
            let root = dir.join("root");
            let unpack = Program::new("sh")?.args(["-c", UNPACK]).args([&root]);
            package.step("unpacking them", unpack.dir(&archives))?;
            let _ = fs::remove_dir_all(dir.join("lists"));
            Ok(fs::remove_dir_all(&archives)?)
        })
    }

    /// Returns the packages with those that they need; reads Debian's list where there is none yet.
    fn with_missing(
        &self,
        update: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<String>> {
        let mut wanted = self.simulate();
        if wanted.is_empty() {
            update()?;
            wanted = self.simulate();
        }
        if wanted.is_empty() {
            let name = self.names[0];
            bail!("Debian's package {name} cannot be had here (no network?)");
        }
        Ok(wanted)
    }

    /// Returns what `apt-get install` would add to this machine: the packages themselves are always
    /// among it, even where they are installed.
    fn simulate(&self) -> Vec<String> {
        let simulated = Command::new("apt-get")
            .args("install --simulate --no-install-recommends --reinstall".split(' '))
            .args(self.names)
            .output();
        let output = simulated
            .map(|simulated| simulated.stdout)
            .unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let added = output.lines().filter_map(|line| line.strip_prefix("Inst "));
        let names = added.filter_map(|line| line.split(' ').next());
        names.map(str::to_owned).collect()
    }
}

/// Returns options for `apt-get` that leave the lists of this machine alone.
fn own_lists(dir: &Path, suite: &str) -> anyhow::Result<Vec<OsString>> {
    let (lists, sources) = (dir.join("lists"), dir.join("sources.list"));
    create_dir(&lists.join("partial"))?;
    let source = format!("deb [signed-by={KEYRING}] http://deb.debian.org/debian {suite} main\n");
    fs::write(&sources, source)?;
    let options = [
        format!("Dir::Etc::SourceList={}", sources.display()),
        "Dir::Etc::SourceParts=/dev/null".to_owned(),
        format!("Dir::State::Lists={}", lists.display()),
        format!("Dir::Cache={}", dir.join("archives").display()),
        "APT::Sandbox::User=root".to_owned(),
    ];
    let options = options.map(|option| ["-o".into(), OsString::from(option)]);
    Ok(options.concat())
}

/// Returns the variables with which programs in these roots find each other and their libraries; the
/// first root goes before the others.
pub(crate) fn environment(roots: &[PathBuf]) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    let below = |folders: &[String]| -> Vec<PathBuf> {
        let in_root = |root: &PathBuf| folders.iter().map(|f| root.join(f)).collect::<Vec<_>>();
        roots.iter().flat_map(in_root).collect()
    };
    let programs = ["usr/sbin", "usr/bin", "sbin", "bin"].map(str::to_owned);
    let arch = std::env::consts::ARCH;
    let libraries = ["usr/lib", "lib"].map(|lib| format!("{lib}/{arch}-linux-gnu"));
    Ok(vec![
        ("PATH", path_with(below(&programs))?),
        ("LD_LIBRARY_PATH", std::env::join_paths(below(&libraries))?),
    ])
}
