//! The part `replicas` of `cargo xtask nightly`: three gateways on one PostgreSQL behind nginx, as a table of real clients
//! and of every fault, each `ok` or `FAILED` with its figures.

mod cluster;
mod faults;
mod load;

use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use crate::install::{self, Package};
use crate::process::output;
use crate::services::docker;
use crate::{checks, clients, layout, shutdown};

use cluster::Cluster;

/// The name of a row of the table, and its check, which returns the figures.
type Row = (&'static str, fn(&mut Cluster) -> Result<String>);

/// The files, and the official SDKs in both eras.
const FILES_AND_SDKS: [Row; 3] = [
    ("files for compose and Kubernetes", files),
    ("SDK for TypeScript, both eras, through nginx", |cluster| {
        sdk(cluster, "typescript")
    }),
    ("SDK for Python, both eras, through nginx", |cluster| {
        sdk(cluster, "python")
    }),
];

pub(crate) fn run() -> Result<()> {
    checks::build()?;
    let mut cluster = Cluster::start()?;
    let mut failed = 0;
    for (name, check) in FILES_AND_SDKS.iter().chain(&faults::FAULTS) {
        let started = Instant::now();
        let result = check(&mut cluster);
        ensure!(!shutdown::requested(), "stopped");
        let (verdict, shown) = match &result {
            Ok(shown) => ("ok", shown.clone()),
            Err(error) => ("FAILED", format!("{error:#.300}")),
        };
        failed += usize::from(result.is_err());
        let seconds = started.elapsed().as_secs_f32();
        print_line!("{verdict:<8} {name} ({seconds:.1} s): {shown}");
        // So that a row which failed does not fail the next ones.
        cluster.repair()?;
    }
    ensure!(failed == 0, "{failed} rows failed");
    Ok(())
}

fn sdk(cluster: &mut Cluster, name: &str) -> Result<String> {
    let counts = clients::run_at(name, cluster.nginx.port)?;
    ensure!(counts.failed == 0 && counts.passed > 0, "{counts}");
    Ok(counts.to_string())
}

/// The files for compose, which start nothing without each of their secrets.
const COMPOSE_FILES: [(&str, &str); 2] = [
    (
        "deploy/replicas.yml",
        "MCP_TOKEN MCP_SESSION_KEY POSTGRES_PASSWORD",
    ),
    (
        "docker-compose.yml",
        "MCP_TOKEN OPENHANDS_API_KEY OH_SECRET_KEY",
    ),
];

/// The files with which operators start servers: Kubernetes' by the schemas of its API, the compose files by compose.
/// That of nginx is the cluster's.
fn files(_: &mut Cluster) -> Result<String> {
    let package = Package::new("replicas", "kubernetes-validate");
    let programs = install::install_python(&package, "kubernetes-validate==1.37.0\n")?;
    let mut validate = Command::new(programs.join("kubernetes-validate"));
    validate.args(["--strict", "--quiet", "deploy/kubernetes.yaml"]);
    output(validate.current_dir(layout::root())).context("kubernetes.yaml")?;
    let compose = docker::install_plugins()?.join("docker-compose");
    for (file, secrets) in COMPOSE_FILES {
        for missing in secrets.split(' ').map(Some).chain([None]) {
            let mut config = Command::new(&compose);
            config.args(["--file", file, "config", "--quiet"]);
            config.envs(secrets.split(' ').map(|name| (name, "secret")));
            missing.map(|name| config.env_remove(name));
            let output = config.current_dir(layout::root()).output()?;
            let text = String::from_utf8_lossy(&output.stderr);
            let is_right = match missing {
                Some(name) => !output.status.success() && text.contains(name),
                None => output.status.success(),
            };
            ensure!(is_right, "{file} without {missing:?}: {text:.500}");
        }
    }
    Ok("Kubernetes and compose accept them".to_owned())
}
