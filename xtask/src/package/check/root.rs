//! A Debian in which packages are installed. Each script runs on a copy of it in memory, and mounts and processes in
//! namespaces of their own end with it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::install::{Package, minbase, unavailable};
use crate::layout::Layout;
use crate::package::WHO;
use crate::process::Program;

const PACKAGES: &str = "lintian rpm systemd man-db ca-certificates";

/// Runs a script; arguments: the root, a folder that becomes `/packages`, the script. The copy is an overlay whose
/// changes are in memory.
const ENTER: &str = r#"
    mount -t tmpfs tmpfs /mnt
    mkdir /mnt/upper /mnt/work /mnt/debian
    mount -t overlay overlay -o "lowerdir=$0,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/debian
    mount -t proc proc /mnt/debian/proc
    mount --rbind /dev /mnt/debian/dev
    mkdir /mnt/debian/packages
    mount --bind "$1" /mnt/debian/packages
    exec chroot /mnt/debian sh -ec "$2"
"#;

/// An installed Debian of this machine's release.
pub(super) struct Root {
    dir: PathBuf,
}

impl Root {
    /// Installs it, once.
    ///
    /// # Errors
    /// If this is no Debian, or this process does not run as root.
    pub(super) fn install(layout: &Layout) -> anyhow::Result<Self> {
        if fs::metadata("/proc/self")?.uid() != 0 {
            bail!(unavailable("it needs root, to change the root directory"));
        }
        let package = Package::new(layout, WHO, WHO);
        let dir = package.dir.join("root");
        let suite = suite()?;
        package.install(&format!("{suite} {PACKAGES}"), |_| {
            minbase::bootstrap(layout, &package, &dir, &suite)?;
            minbase::configure_apt(&dir)?;
            let script = format!(
                "apt-get update && apt-get install --yes --no-install-recommends {PACKAGES} && apt-get clean"
            );
            let program = Program::new("unshare")?.words("--mount --pid --fork --kill-child sh -ec");
            let enter = r#"mount -t proc proc "$0/proc"; exec chroot "$0" sh -ec "$1""#;
            let program = program.args([enter.as_ref(), dir.as_os_str(), script.as_ref()]);
            let program = program.envs([("DEBIAN_FRONTEND", "noninteractive"), ("LC_ALL", "C.UTF-8")]);
            package.step("downloading lintian, rpm and systemd (1 minute)", program)
        })?;
        Ok(Self { dir })
    }

    /// Creates a command that runs a script of `sh` on a fresh copy of the Debian; `packages` is its `/packages`.
    pub(super) fn script(&self, packages: &std::path::Path, script: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-ec",
            ENTER,
        ]);
        command.arg(&self.dir).arg(packages).arg(script);
        command
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8");
        command.env("HOME", "/root").env_remove("LD_LIBRARY_PATH");
        command
    }
}

/// Returns the release of this Debian, such as `bookworm`.
fn suite() -> anyhow::Result<String> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let is_debian = release.lines().any(|line| line == "ID=debian");
    let mut lines = release.lines();
    let suite = lines.find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let suite = suite.filter(|_| is_debian).map(str::to_owned);
    suite.context("this is no Debian")
}
