//! A PostgreSQL of one test run, for the event log that gateways share: the one of this machine, or
//! Debian's package unpacked beside the rest.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::console::Heartbeat;
use crate::layout::{Layout, create_dir, on_path};
use crate::process::{GRACE, Process, Program};
use crate::services::{free_port, last_line, wait_ready};

/// PostgreSQL does not run as root; `nobody` is the same everywhere.
const NOBODY: u32 = 65_534;

/// Fetches the packages with the libraries that they name, except the C library, which has to be the
/// machine's own.
const UNPACK: &str = r#"
    set -e
    wanted() { apt-cache depends "$1" | sed -n "s/.*Depends: \($2\)\$/\1/p"; }
    server=$(wanted postgresql 'postgresql-[0-9]*' | head -n 1)
    test -n "$server"
    libraries=$(for package in "$server" libpq5; do wanted "$package" 'lib[a-z0-9.+-]*'; done)
    apt-get download "$server" libpq5 $(echo "$libraries" | grep -v '^libc6$' | sort -u)
    for archive in *.deb; do dpkg -x "$archive" "$0"; done
    rm -- *.deb
"#;

/// A running one. Stopped, and its data removed, when it is dropped.
#[derive(Debug)]
pub(crate) struct Postgres {
    process: Option<Process>,
    data: PathBuf,
    /// Its address, for clients.
    pub(crate) url: String,
    /// Who vouches for it, where a client wants TLS.
    pub(crate) authority: PathBuf,
    _lock: File,
}

impl Postgres {
    /// Fetches it where it is missing, and starts it.
    pub(crate) fn start(layout: &Layout) -> anyhow::Result<Self> {
        let programs = programs(layout)?;
        let dir = layout.backends().join("test/postgres");
        create_dir(&dir)?;
        let lock = File::create(dir.with_extension("lock"))?;
        if lock.try_lock().is_err() {
            bail!("another cargo xtask is using the local PostgreSQL; end that one first");
        }
        let data = dir.join("data");
        if data.exists() {
            fs::remove_dir_all(&data)?;
        }
        create_dir(&data)?;
        let root = fs::metadata(&data)?.uid() == 0;
        if root {
            chown(&data, Some(NOBODY), Some(NOBODY))?;
        }
        let log = layout.fresh_log("postgres")?;
        let program = |name: &str, pid_file: Option<&Path>| -> anyhow::Result<Program> {
            let program = programs.join(name);
            let library = programs.join("../../../x86_64-linux-gnu");
            let program = if root {
                let nobody = NOBODY.to_string();
                let user = [
                    "--reuid",
                    &nobody,
                    "--regid",
                    &nobody,
                    "--clear-groups",
                    "--",
                ];
                Program::guarded("setpriv", GRACE, pid_file)?
                    .args(user)
                    .args([program])
            } else {
                Program::guarded(program, GRACE, pid_file)?
            };
            let unpacked = programs.starts_with(layout.backends());
            let library = unpacked.then_some(("LD_LIBRARY_PATH", library));
            program.envs(library).dir(&data).log_to(&log)
        };
        let mut beat = Heartbeat::start("postgres", "starting PostgreSQL");
        program("initdb", None)?
            .args([
                "--username=mcp",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ])
            .args(["-D".into(), OsString::from(&data)])
            .run(&layout.stop, &mut beat)
            .with_context(|| format!("initdb: {}", last_line(&log)))?;
        let tls = layout.root.join("crates/mcp-client/tests/it/tls");
        show_certificate(&tls, &data, root)?;
        let port = free_port(0)?;
        let mut process = program("postgres", Some(&dir.with_extension("pid")))?
            .args(["-D".into(), OsString::from(&data)])
            .args(["-p", &port.to_string()])
            .args([
                "-c",
                "listen_addresses=127.0.0.1",
                "-c",
                "unix_socket_directories=",
                "-c",
                "ssl=on",
            ])
            .spawn()?;
        let ready = || {
            let said = fs::read_to_string(&log).unwrap_or_default();
            said.contains("ready to accept connections")
        };
        wait_ready(
            &mut process,
            &layout.stop,
            &log,
            Duration::from_secs(60),
            ready,
        )?;
        Ok(Self {
            process: Some(process),
            data,
            url: format!("postgres://mcp@127.0.0.1:{port}/postgres?sslmode=disable"),
            authority: tls.join("ca.pem"),
            _lock: lock,
        })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.process.take());
        // What is left is removed by the next run.
        let _ = fs::remove_dir_all(&self.data);
    }
}

/// What the server shows to clients that want TLS, where it looks for that.
fn show_certificate(tls: &Path, data: &Path, root: bool) -> anyhow::Result<()> {
    for (from, to) in [
        ("server.pem", "server.crt"),
        ("server.key.pem", "server.key"),
    ] {
        let to = data.join(to);
        fs::copy(tls.join(from), &to)?;
        fs::set_permissions(&to, Permissions::from_mode(0o600))?;
        if root {
            chown(&to, Some(NOBODY), Some(NOBODY))?;
        }
    }
    Ok(())
}

/// The folder of `initdb` and `postgres`.
fn programs(layout: &Layout) -> anyhow::Result<PathBuf> {
    let unpacked = layout.backends().join("postgres");
    if let Some(found) = installed(Path::new("/")) {
        return Ok(found);
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) || on_path("apt-get").is_none() {
        bail!("PostgreSQL is not installed");
    }
    layout.install_once("postgres", &unpacked, || {
        let log = layout.fresh_log("postgres-install")?;
        let step = "fetching PostgreSQL from Debian's packages: about 60 MB";
        Program::new("sh")?
            .args([
                OsString::from("-c"),
                UNPACK.into(),
                OsString::from(&unpacked),
            ])
            .dir(&unpacked)
            .log_to(&log)?
            .run(&layout.stop, &mut Heartbeat::start("postgres", step))
            .with_context(|| {
                format!(
                    "PostgreSQL is not installed and cannot be fetched: {}",
                    last_line(&log)
                )
            })
    })?;
    installed(&unpacked).context("Debian's package of PostgreSQL holds no server")
}

/// The newest one under this root.
fn installed(root: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(root.join("usr/lib/postgresql")).ok()?;
    let programs = versions.flatten().map(|version| version.path().join("bin"));
    programs
        .filter(|folder| folder.join("initdb").exists())
        .max()
}
