//! A Debian in which packages are installed. Each script runs on a copy of it in memory, and mounts and processes in
//! namespaces of their own end with it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use super::{WHO, output};
use crate::install::debian::DebianPackages;
use crate::install::{Package, unavailable};
use crate::layout::Layout;
use crate::process::Program;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const DEBOOTSTRAP: DebianPackages = DebianPackages::new("debootstrap", &["debootstrap"]);
const PACKAGES: &str = "lintian rpm systemd man-db ca-certificates";

/// Adds packages; arguments: the root and their names. The package manager there reaches the archive as that of this
/// machine does.
const ADD: &str = r#"
    apt-config dump Acquire > "$0/etc/apt/apt.conf.d/90machine"
    cp /etc/resolv.conf "$0/etc/resolv.conf"
    mount -t proc proc "$0/proc"
    exec chroot "$0" sh -ec "apt-get update; apt-get install --yes --no-install-recommends $1; apt-get clean"
"#;

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

/// Runs a script of `sh` in a fresh copy of the Debian, in which `/packages` is `target/dist`.
///
/// # Errors
/// Also without root, and on a machine without Debian's archive.
pub(super) fn run(layout: &Layout, script: &str) -> anyhow::Result<()> {
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Err(unavailable("it needs root, to change the root directory"));
    }
    let package = Package::new(layout, WHO, "debian");
    let root = package.dir.join("root");
    package.install(PACKAGES, |_| {
        DEBOOTSTRAP.install(layout)?;
        let debootstrap = DEBOOTSTRAP.root(layout);
        let program = Program::new("sh")?
            .args([debootstrap.join("usr/sbin/debootstrap")])
            .words(&format!("--variant=minbase --keyring={KEYRING} stable"))
            .args([root.as_os_str(), mirror()?.as_ref()])
            .envs([("DEBOOTSTRAP_DIR", debootstrap.join("usr/share/debootstrap"))]);
        package.step("installing a Debian (1 minute)", program)?;
        let program = Program::new("unshare")?.words("--mount --pid --fork --kill-child sh -ec");
        let program = program.args([ADD]).args([&root]).args([PACKAGES]);
        let program = program.envs([("DEBIAN_FRONTEND", "noninteractive"), ("LC_ALL", "C.UTF-8")]);
        package.step("adding lintian, rpm and systemd (1 minute)", program)
    })?;
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-ec",
        ENTER,
    ]);
    unshare
        .args([&root, &layout.target.join("dist")])
        .arg(script)
        .env_clear();
    unshare
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .envs([("LC_ALL", "C.UTF-8"), ("HOME", "/root")]);
    output(&mut unshare).map(drop)
}

/// Returns the mirror from which this machine takes Debian's packages.
fn mirror() -> anyhow::Result<String> {
    let filters = [
        "--format=$(SITE)",
        "Origin: Debian",
        "Label: Debian",
        "Component: main",
    ];
    let sites = output(Command::new("apt-get").arg("indextargets").args(filters))?;
    let site = sites.lines().next().map(str::to_owned);
    site.ok_or_else(|| unavailable("apt-get knows no mirror of Debian; run `apt-get update`"))
}
