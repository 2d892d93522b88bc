//! The Debian with the toolchain.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nix::unistd::Pid;

use super::WHO;
use crate::console::Heartbeat;
use crate::install::{Package, minbase, unavailable};
use crate::layout::{Layout, create_dir};
use crate::process::Program;

/// Has rustc with the sources of the standard library of the same version, for whole targets.
const SUITE: &str = "sid";
const PACKAGES: &str = "rustc cargo rust-src rust-clippy gcc libc6-dev make pkg-config \
                        gcc-mingw-w64-x86-64-win32 wine64 wine python3-venv ca-certificates";
/// A C compiler with the headers of macOS.
const ZIG: &str = "ziglang==0.17.1";
/// Files that nothing here reads, 1 GB; as dpkg names them, where `*` is also a slash.
const EXCLUDED: [&str; 3] = [
    "/usr/share/doc/*",
    "/usr/share/locale/*",
    "/usr/lib/*/wine/i386-windows/*",
];
/// Sources of the compiler beside those of the standard library, 400 MB; as a shell names them.
const COMPILER_SOURCES: &str = "/usr/src/rustc-*/src /usr/src/rustc-*/compiler";
/// The certificates that this machine trusts, at the path of Debian.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Variables of this machine that say how the internet is reached.
const PASSED_VARIABLES: [&str; 4] = ["http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL"];

/// The copy of the workspace in the Debian.
pub(super) const WORKSPACE: &str = "/work";

/// Starts a script in the Debian; arguments: its root, the registry of cargo, the script. Mounts and
/// processes are in namespaces of their own, so they end with this process, however it ends. The first
/// process of a namespace gets only signals that it handles, so it does not become the script.
const ENTER: &str = r#"
    mount -t proc proc "$0/proc"
    mount --rbind /dev "$0/dev"
    mount --bind "$1" "$0/opt/cargo/registry"
    trap 'exit 143' TERM
    chroot "$0" sh -ec "cd /work && $2" &
    wait "$!"
"#;

/// `CC` for macOS: zig knows neither of these options of the crate `cc`. The name of the file is that of its target.
const CC_MACOS: &str = r#"#!/bin/sh
for arg; do
    shift
    case $arg in --target=* | -mmacosx-version-min=*) ;; *) set -- "$@" "$arg" ;; esac
done
exec /opt/zig/bin/python -m ziglang cc -target "${0##*/}" "$@"
"#;
const CC_MACOS_NAMES: [&str; 2] = ["aarch64-macos", "x86_64-macos"];

/// Replaces the workspace in the Debian by the tracked files of this one, without the choice of a
/// toolchain. Arguments: the folder in the Debian. Times stay, so that cargo builds only what changed.
const COPY: &str = r#"
    rm -rf "$0/crates" "$0/tests" "$0/xtask"
    git ls-files -z | grep -zvx rust-toolchain.toml | tar --null -T - -cf - | tar -xf - -C "$0"
"#;

/// An installed Debian.
pub(super) struct Chroot<'a> {
    pub(super) layout: &'a Layout,
    pub(super) root: PathBuf,
}

impl<'a> Chroot<'a> {
    /// Installs it, once.
    ///
    /// # Errors
    /// If this is no Debian, or this process does not run as root.
    pub(super) fn install(layout: &'a Layout) -> anyhow::Result<Self> {
        if fs::metadata("/proc/self")?.uid() != 0 {
            bail!(unavailable("it needs root, to change the root directory"));
        }
        let package = Package::new(layout, WHO, WHO);
        let chroot = Self {
            layout,
            root: package.dir.join("root"),
        };
        let version = format!("{PACKAGES} {ZIG} {}", EXCLUDED.join(" "));
        package.install(&version, |_| {
            minbase::bootstrap(layout, &package, &chroot.root, SUITE)?;
            chroot.configure()?;
            let step = "downloading Debian's packages (up to 5 minutes)";
            let apt = format!(
                "apt-get update && apt-get install --yes --no-install-recommends {PACKAGES} && \
                 apt-get clean && rm -rf {COMPILER_SOURCES}"
            );
            package.step(step, chroot.program(&apt)?)?;
            if Path::new(CERTIFICATES).exists() {
                fs::copy(CERTIFICATES, chroot.file(CERTIFICATES))?;
            }
            let pip = format!(
                "python3 -m venv /opt/zig && /opt/zig/bin/pip install --no-compile --no-cache-dir {ZIG}"
            );
            package.step("downloading a C compiler for macOS", chroot.program(&pip)?)
        })?;
        Ok(chroot)
    }

    /// Configures the package manager as that of this machine, and adds the compiler for macOS.
    fn configure(&self) -> anyhow::Result<()> {
        minbase::configure_apt(&self.root)?;
        let excluded = EXCLUDED.map(|path| format!("path-exclude={path}\n"));
        fs::write(
            self.file("/etc/dpkg/dpkg.cfg.d/90excluded"),
            excluded.concat(),
        )?;
        create_dir(&self.file("/opt/cargo/registry"))?;
        create_dir(&self.file(WORKSPACE))?;
        for name in CC_MACOS_NAMES {
            let compiler = self.file("/usr/local/bin").join(name);
            fs::write(&compiler, CC_MACOS)?;
            fs::set_permissions(&compiler, Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    /// Returns the path on this machine of a file in the Debian.
    pub(super) fn file(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Copies the tracked files.
    pub(super) fn copy_workspace(&self) -> anyhow::Result<()> {
        let copy = Program::new("sh")?.args(["-ec", COPY]);
        let copy = copy.args([self.file(WORKSPACE)]).dir(&self.layout.root);
        let log = self.layout.fresh_log("portable-copy")?;
        let heartbeat = Heartbeat::start(WHO, "copying the workspace");
        copy.log_to(&log)?.run(&self.layout.shutdown, heartbeat)
    }

    /// Creates a program that runs this script of `sh` in the Debian, in the copy of the workspace.
    pub(super) fn program(&self, script: &str) -> anyhow::Result<Program> {
        let registry = cargo_registry()?;
        let program = self.environment()?;
        Ok(program
            .words("nice unshare --mount --pid --fork --kill-child sh -ec")
            .args([ENTER.as_ref(), self.root.as_os_str(), registry.as_os_str()])
            .args([script]))
    }

    /// Creates a program that runs in the namespaces of a process of the Debian, and ends with them.
    pub(super) fn program_inside(&self, inside: Pid, words: &[&str]) -> anyhow::Result<Program> {
        let program = self.environment()?.words("nsenter --mount --pid --target");
        let program = program.args([inside.to_string()]).args(["chroot"]);
        Ok(program.args([&self.root]).args(words))
    }

    /// Creates a program that sets the environment of another one.
    fn environment(&self) -> anyhow::Result<Program> {
        let path = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let mut program = Program::new("env")?.args(["--ignore-environment"]);
        let passed = PASSED_VARIABLES.iter();
        for name in passed.filter(|name| std::env::var_os(name).is_some()) {
            program = program.args([format!("{name}={}", std::env::var(name)?)]);
        }
        Ok(program
            .args([format!("PATH={path}")])
            .words("HOME=/root CARGO_HOME=/opt/cargo LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive")
            .words("CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 RUSTC_BOOTSTRAP=1")
            .args(CC_MACOS_NAMES.map(|name| {
                let processor = name.trim_end_matches("-macos");
                format!("CC_{processor}_apple_darwin={name}")
            }))
            .words("WINEDEBUG=-all WINEPREFIX=/opt/wine")
            .args([format!("PIP_CERT={CERTIFICATES}")]))
    }
}

/// Returns the registry of cargo on this machine, which the Debian shares: one download for both.
fn cargo_registry() -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let registry = home.context("no home directory")?.join("registry");
    create_dir(&registry)?;
    Ok(registry)
}
