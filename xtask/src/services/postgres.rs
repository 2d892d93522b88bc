//! A PostgreSQL for one test run, for the event log that gateways share: the installed one, or Debian's.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Environment, Service};
use crate::console::Heartbeat;
use crate::install::debian::{self, DebianPackages};
use crate::instance::Instance;
use crate::layout::{self, create_dir};
use crate::process::{Process, Program, is_root};

/// The user id without rights for PostgreSQL, which does not run as root.
const UNPRIVILEGED_UID: u32 = 65_534;

const START_TIMEOUT: Duration = Duration::from_secs(60);

const PACKAGES: DebianPackages = DebianPackages("postgres", "", "postgresql");

/// The files of its certificate, with their names in its folder.
const CERTIFICATE: [(&str, &str); 2] = [
    ("server.pem", "server.crt"),
    ("server.key.pem", "server.key"),
];

/// The folder of a second server, which copies the first one and takes its place after its end.
const STANDBY: &str = "standby";

pub(crate) struct Postgres;

impl Service for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn install(&self) -> Result<()> {
        if programs().is_none() {
            PACKAGES.install()?;
            programs().context("Debian's package of PostgreSQL has no server")?;
        }
        Ok(())
    }

    fn start(&self, instance: &Instance) -> Result<Process> {
        let data = data_folder(instance, "data")?;
        let log = instance.log()?;
        program(instance, "initdb")?
            .option("-D", &data)
            .words("--username=mcp --auth=trust --encoding=UTF8 --locale=C --no-sync")
            .run(Heartbeat::start("postgres", "initdb"), &log)?;
        for (from, to) in CERTIFICATE {
            let to = data.join(to);
            fs::copy(tls().join(from), &to)?;
            give(&to, 0o600)?;
        }
        self.start_again(instance)
    }

    /// Returns its address, and the authority of its certificate for clients with TLS.
    fn test_environment(&self, instance: &Instance) -> Environment {
        let port = instance.port;
        let url = format!("postgres://mcp@127.0.0.1:{port}/postgres?sslmode=disable");
        vec![
            ("MCP_TEST_POSTGRES_URL", url.into()),
            ("MCP_TEST_POSTGRES_CA", tls().join("ca.pem").into()),
        ]
    }
}

impl Postgres {
    pub(crate) fn start_again(&self, instance: &Instance) -> Result<Process> {
        let log = instance.log()?;
        let starts = || {
            let output = fs::read_to_string(&log).unwrap_or_default();
            output.matches("ready to accept connections").count()
        };
        let server = server(instance, "data", instance.port)?;
        let (step, before) = ("starting PostgreSQL", starts());
        instance.start(step, START_TIMEOUT, server, || starts() > before)
    }

    /// Starts a server on another port that follows the one of this instance.
    pub(crate) fn start_standby(&self, instance: &Instance, port: u16) -> Result<Process> {
        let data = data_folder(instance, STANDBY)?;
        let log = layout::fresh_log("service-standby")?;
        program(instance, "pg_basebackup")?
            .words("-h 127.0.0.1 -U mcp -R -X stream -c fast --no-sync")
            .option("-p", instance.port.to_string())
            .option("-D", data)
            .run(Heartbeat::start("postgres", "pg_basebackup"), &log)?;
        let standby = server(instance, STANDBY, port)?;
        let mut standby = standby.log_to(&log)?.spawn()?;
        standby.wait_ready(&log, START_TIMEOUT, || {
            let output = fs::read_to_string(&log).unwrap_or_default();
            output.contains("ready to accept read") && output.contains("started streaming")
        })?;
        Ok(standby)
    }

    pub(crate) fn promote(&self, instance: &Instance) -> Result<()> {
        let log = layout::log("service-standby")?;
        program(instance, "pg_ctl")?
            .words("promote")
            .option("-D", instance.file(STANDBY))
            .run(Heartbeat::start("postgres", "pg_ctl promote"), &log)
    }
}

fn server(instance: &Instance, data: &str, port: u16) -> Result<Program> {
    Ok(program(instance, "postgres")?
        .option("-D", instance.file(data))
        .words("-c listen_addresses=127.0.0.1 -c unix_socket_directories= -c ssl=on")
        .option("-p", port.to_string()))
}

/// Creates a folder for the files of a server, which belongs to its user.
fn data_folder(instance: &Instance, name: &str) -> Result<PathBuf> {
    let data = instance.file(name);
    create_dir(&data)?;
    give(&data, 0o700)?;
    Ok(data)
}

/// Gives a new folder or file to the user of the server alone.
fn give(made: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(made, Permissions::from_mode(mode))?;
    if is_root() {
        chown(made, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID))?;
    }
    Ok(())
}

/// Returns a program of PostgreSQL, as its user.
fn program(instance: &Instance, name: &str) -> Result<Program> {
    let programs = programs().context("PostgreSQL is not installed")?;
    let (program, id) = (programs.join(name), UNPRIVILEGED_UID.to_string());
    let program = match is_root() {
        true => Program::new("setpriv")
            .args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"])
            .args([program]),
        false => Program::new(program),
    };
    let libraries = match programs.starts_with(layout::backends()) {
        true => debian::environment(&[PACKAGES.root()])?,
        false => Environment::new(),
    };
    Ok(program.envs(libraries).dir(&instance.dir))
}

fn tls() -> PathBuf {
    layout::root().join("crates/mcp-client/tests/it/tls")
}

/// Finds the folder of `initdb` and `postgres`: installed, or unpacked.
fn programs() -> Option<PathBuf> {
    let newest = |root: &Path| {
        let versions = fs::read_dir(root.join("usr/lib/postgresql")).ok()?;
        let programs = versions.flatten().map(|version| version.path().join("bin"));
        programs.filter(|dir| dir.join("initdb").exists()).max()
    };
    newest(Path::new("/")).or_else(|| newest(&PACKAGES.root()))
}
