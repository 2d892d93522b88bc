//! A PostgreSQL for one test run, for the event log that gateways share: the installed one, or
//! Debian's.

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
        let programs = programs(layout).context("PostgreSQL is not installed")?;
        let data = instance.file("data");
        create_dir(&data)?;
        let is_root = fs::metadata(&data)?.uid() == 0;
        if is_root {
            chown(&data, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID))?;
        }
        let log = instance.log(layout)?;
        let program = |name: &str| -> anyhow::Result<Program> {
            let program = programs.join(name);
            let program = if is_root {
                let as_user = format!(
                    "--reuid {UNPRIVILEGED_UID} --regid {UNPRIVILEGED_UID} --clear-groups --"
                );
                Program::new("setpriv")?.words(&as_user).args([program])
            } else {
                Program::new(program)?
            };
            let libraries = match programs.starts_with(layout.backends()) {
                true => debian::environment(&[PACKAGES.root(layout)])?,
                false => Vec::new(),
            };
            let data = ["-D".into(), OsString::from(&data)];
            Ok(program.envs(libraries).dir(&instance.dir).args(data))
        };
        program("initdb")?
            .words("--username=mcp --auth=trust --encoding=UTF8 --locale=C --no-sync")
            .log_to(&log)?
            .run(&layout.shutdown, Heartbeat::start("postgres", "initdb"))
            .with_context(|| format!("initdb: {}", last_line(&log)))?;
        install_certificate(&tls(layout), &data, is_root)?;
        let options = "-c listen_addresses=127.0.0.1 -c unix_socket_directories= -c ssl=on -p";
        let server = program("postgres")?.words(options);
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
            ("SSL_CERT_FILE", tls(layout).join("ca.pem").into()),
        ]
    }
}

fn tls(layout: &Layout) -> PathBuf {
    layout.root.join("crates/mcp-client/tests/it/tls")
}

fn install_certificate(tls: &Path, data: &Path, is_root: bool) -> anyhow::Result<()> {
    for (from, to) in [
        ("server.pem", "server.crt"),
        ("server.key.pem", "server.key"),
    ] {
        let to = data.join(to);
        fs::copy(tls.join(from), &to)?;
        fs::set_permissions(&to, Permissions::from_mode(0o600))?;
        if is_root {
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
