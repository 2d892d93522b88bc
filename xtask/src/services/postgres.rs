//! A PostgreSQL for one test run, for the event log that gateways share: the installed one, or
//! Debian's.

mod standby;

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use super::{Environment, Service};
use crate::console::Heartbeat;
use crate::install::debian::{self, DebianPackages};
use crate::instance::Instance;
use crate::layout::{Layout, create_dir, on_path};
use crate::process::{Process, Program, last_line};

/// The user id without rights for PostgreSQL, which does not run as root.
const UNPRIVILEGED_UID: u32 = 65_534;

const START_TIMEOUT: Duration = Duration::from_secs(60);

const PACKAGES: DebianPackages = DebianPackages::new("postgres", &["postgresql"]);

const SERVER_OPTIONS: &str =
    "-c listen_addresses=127.0.0.1 -c unix_socket_directories= -c ssl=on -p";

#[derive(Debug)]
pub(crate) struct Postgres;

impl Service for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn obstacle(&self, layout: &Layout) -> Option<String> {
        let missing = programs(layout).is_none() && on_path("apt-get").is_none();
        missing.then(|| "PostgreSQL is not installed".to_owned())
    }

    fn install(&self, layout: &Layout) -> anyhow::Result<()> {
        if programs(layout).is_none() {
            PACKAGES.install(layout)?;
            programs(layout).context("Debian's package of PostgreSQL has no server")?;
        }
        Ok(())
    }

    fn start(&self, layout: &Layout, instance: &Instance) -> anyhow::Result<Process> {
        let data = data_folder(instance, "data")?;
        let log = instance.log(layout)?;
        let program = |name: &str| -> anyhow::Result<Program> {
            let data = ["-D".into(), OsString::from(&data)];
            Ok(program(layout, instance, name)?.args(data))
        };
        program("initdb")?
            .words("--username=mcp --auth=trust --encoding=UTF8 --locale=C --no-sync")
            .log_to(&log)?
            .run(&layout.shutdown, Heartbeat::start("postgres", "initdb"))
            .with_context(|| format!("initdb: {}", last_line(&log)))?;
        install_certificate(&tls(layout), &data)?;
        let server = program("postgres")?.words(SERVER_OPTIONS);
        let server = server.args([instance.port.to_string()]);
        let step = "starting PostgreSQL";
        instance.start(layout, step, START_TIMEOUT, server, || {
            let output = fs::read_to_string(&log).unwrap_or_default();
            output.contains("ready to accept connections")
        })
    }

    /// Returns its address, and the authority of its certificate for clients with TLS.
    fn test_environment(&self, layout: &Layout, instance: &Instance) -> Environment {
        let port = instance.port;
        let url = format!("postgres://mcp@127.0.0.1:{port}/postgres?sslmode=disable");
        vec![
            ("MCP_TEST_POSTGRES_URL", url.into()),
            ("MCP_TEST_POSTGRES_CA", tls(layout).join("ca.pem").into()),
        ]
    }
}

/// Creates a folder for the files of a server, which belongs to its user.
fn data_folder(instance: &Instance, name: &str) -> anyhow::Result<PathBuf> {
    let data = instance.file(name);
    create_dir(&data)?;
    fs::set_permissions(&data, Permissions::from_mode(0o700))?;
    if is_root(&data)? {
        chown(&data, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID))?;
    }
    Ok(data)
}

/// Returns true if this process runs as root, and has just made this folder or file.
fn is_root(made: &Path) -> anyhow::Result<bool> {
    Ok(fs::metadata(made)?.uid() == 0)
}

/// Returns a program of PostgreSQL, as its user.
fn program(layout: &Layout, instance: &Instance, name: &str) -> anyhow::Result<Program> {
    let programs = programs(layout).context("PostgreSQL is not installed")?;
    let program = programs.join(name);
    let program = if is_root(&instance.dir)? {
        let as_user =
            format!("--reuid {UNPRIVILEGED_UID} --regid {UNPRIVILEGED_UID} --clear-groups --");
        Program::new("setpriv")?.words(&as_user).args([program])
    } else {
        Program::new(program)?
    };
    let libraries = match programs.starts_with(layout.backends()) {
        true => debian::environment(&[PACKAGES.root(layout)])?,
        false => Vec::new(),
    };
    Ok(program.envs(libraries).dir(&instance.dir))
}

fn tls(layout: &Layout) -> PathBuf {
    layout.root.join("crates/mcp-client/tests/it/tls")
}

fn install_certificate(tls: &Path, data: &Path) -> anyhow::Result<()> {
    for (from, to) in [
        ("server.pem", "server.crt"),
        ("server.key.pem", "server.key"),
    ] {
        let to = data.join(to);
        fs::copy(tls.join(from), &to)?;
        fs::set_permissions(&to, Permissions::from_mode(0o600))?;
        if is_root(&to)? {
            chown(&to, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID))?;
        }
    }
    Ok(())
}

/// Finds the folder of `initdb` and `postgres`: installed, or unpacked.
fn programs(layout: &Layout) -> Option<PathBuf> {
    let newest = |root: &Path| {
        let versions = fs::read_dir(root.join("usr/lib/postgresql")).ok()?;
        let programs = versions.flatten().map(|version| version.path().join("bin"));
        programs.filter(|dir| dir.join("initdb").exists()).max()
    };
    newest(Path::new("/")).or_else(|| newest(&PACKAGES.root(layout)))
}
