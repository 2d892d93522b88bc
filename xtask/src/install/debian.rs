//! Unpacks Debian packages into a folder, without touching the packages that are installed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::bail;

use super::{Package, unavailable};
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

/// A set of packages.
#[derive(Debug)]
pub(crate) struct DebianPackages {
    /// The prefix of their lines on the terminal, and their folder below `target/backends`.
    name: &'static str,
    names: &'static [&'static str],
    /// Another release than this machine's, from which these packages alone are taken. From this
    /// machine's own come also the packages that they need and that are not installed.
    suite: Option<&'static str>,
}

impl DebianPackages {
    /// Creates a set of the packages of this machine's release.
    pub(crate) const fn new(name: &'static str, names: &'static [&'static str]) -> Self {
        Self {
            name,
            names,
            suite: None,
        }
    }

    /// Takes the packages from this release.
    pub(crate) const fn with_suite(mut self, suite: &'static str) -> Self {
        self.suite = Some(suite);
        self
    }

    /// Returns the folder that looks like the root of a Debian.
    pub(crate) fn root(&self, layout: &Layout) -> PathBuf {
        self.package(layout).dir.join("root")
    }

    /// Returns true if they are unpacked.
    pub(crate) fn is_complete(&self, layout: &Layout) -> bool {
        self.package(layout).is_complete()
    }

    fn package<'a>(&self, layout: &'a Layout) -> Package<'a> {
        Package::new(layout, self.name, self.name)
    }

    /// Downloads and unpacks them, once.
    ///
    /// # Errors
    /// On a machine without Debian's package manager or without access to its archive.
    pub(crate) fn install(&self, layout: &Layout) -> anyhow::Result<()> {
        let has_keyring = self.suite.is_none() || Path::new(KEYRING).exists();
        if on_path("apt-get").is_none() || !has_keyring {
            bail!(unavailable(
                "it needs Debian's packages, and this is no Debian"
            ));
        }
        let package = self.package(layout);
        package.install("", |dir| {
            let (archives, root) = (dir.join("archives"), dir.join("root"));
            create_dir(&archives.join("partial"))?;
            create_dir(&root.join("usr/sbin"))?;
            let options = match self.suite {
                Some(suite) => separate_lists(dir, suite)?,
                None => Vec::new(),
            };
            let apt = |step: &str, command: &str, names: &[String]| {
                let apt = Program::new("apt-get")?.args(&options).args([command]);
                package.step(step, apt.args(names).dir(&archives))
            };
            let update = || apt("reading Debian's list", "update", &[]);
            let names = match self.suite {
                Some(_) => {
                    update()?;
                    self.names.iter().map(|name| (*name).to_owned()).collect()
                }
                None => self.with_dependencies(update)?,
            };
            let download = || apt("downloading Debian's packages", "download", &names);
            if download().is_err() {
                // The list may be older than the archive.
                update()?;
                download()?;
            }
            let unpack = Program::new("sh")?.args(["-c", UNPACK]).args([&root]);
            package.step("unpacking them", unpack.dir(&archives))?;
            let _ = fs::remove_dir_all(dir.join("lists"));
            Ok(fs::remove_dir_all(&archives)?)
        })
    }

    /// Returns the packages with those that they need; updates Debian's list if there is no list yet.
    fn with_dependencies(
        &self,
        update: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<String>> {
        let mut names = self.simulate_install();
        if names.is_empty() {
            update()?;
            names = self.simulate_install();
        }
        if names.is_empty() {
            let name = self.names[0];
            bail!("Debian's package {name} is not available here (no network?)");
        }
        Ok(names)
    }

    /// Returns the packages that `apt-get install` would add to this machine; always with the
    /// packages themselves, even if they are installed.
    fn simulate_install(&self) -> Vec<String> {
        let mut apt = Command::new("apt-get");
        apt.args("install --simulate --no-install-recommends --reinstall".split(' '));
        let output = apt.args(self.names).output();
        let output = output.map(|output| output.stdout).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let added = output.lines().filter_map(|line| line.strip_prefix("Inst "));
        let names = added.filter_map(|line| line.split(' ').next());
        names.map(str::to_owned).collect()
    }
}

/// Returns the address of Debian's archive that this machine uses.
fn archive() -> anyhow::Result<String> {
    let mut apt = Command::new("apt-get");
    let output = apt.args(["indextargets", "--format", "$(REPO_URI)"]);
    let output = String::from_utf8(output.output()?.stdout)?;
    let mut addresses = output.lines();
    match addresses.find(|address| address.trim_end_matches('/').ends_with("/debian")) {
        Some(address) => Ok(address.to_owned()),
        None => bail!(unavailable("no source of this machine is Debian's archive")),
    }
}

/// Returns options for `apt-get` that leave the lists of this machine unchanged.
fn separate_lists(dir: &Path, suite: &str) -> anyhow::Result<Vec<String>> {
    let (lists, sources) = (dir.join("lists"), dir.join("sources.list"));
    create_dir(&lists.join("partial"))?;
    let source = format!("deb [signed-by={KEYRING}] {} {suite} main\n", archive()?);
    fs::write(&sources, source)?;
    let options = [
        format!("Dir::Etc::SourceList={}", sources.display()),
        "Dir::Etc::SourceParts=/dev/null".to_owned(),
        format!("Dir::State::Lists={}", lists.display()),
        format!("Dir::Cache={}", dir.join("archives").display()),
        "APT::Sandbox::User=root".to_owned(),
    ];
    Ok(options.map(|option| ["-o".to_owned(), option]).concat())
}

/// Returns the program of this name, and the variables by which it finds its libraries: the installed one, or that of
/// the packages at `path` in their root.
pub(crate) fn installed_or(
    packages: &DebianPackages,
    name: &str,
    path: &str,
    layout: &Layout,
) -> anyhow::Result<(PathBuf, Libraries)> {
    if let Some(installed) = on_path(name) {
        return Ok((installed, Libraries::new()));
    }
    packages.install(layout)?;
    let root = packages.root(layout);
    Ok((root.join(path), environment(&[root])?))
}

/// The variables by which a program finds its libraries.
pub(crate) type Libraries = Vec<(&'static str, OsString)>;

/// Returns the variables with which programs in these roots find each other and their libraries; the
/// first root goes before the others.
pub(crate) fn environment(roots: &[PathBuf]) -> anyhow::Result<Libraries> {
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
