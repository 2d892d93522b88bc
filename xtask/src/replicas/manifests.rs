//! The files with which operators start several gateways: Kubernetes' by the schemas of its API, the compose file by
//! compose, and the nginx file by nginx. None of them needs a network or an engine.

use std::fs;
use std::process::Command;

use anyhow::ensure;

use super::cluster::Cluster;
use crate::install::{self, Package};
use crate::instance::clear_dir;
use crate::layout::Layout;
use crate::nginx;
use crate::process::Program;
use crate::services::docker;

const VALIDATOR: &str = "kubernetes-validate==1.37.0\n";
const COMPOSE_FILE: &str = "docker-compose.replicas.yml";
const SECRETS: [&str; 3] = ["MCP_TOKEN", "MCP_SESSION_KEY", "POSTGRES_PASSWORD"];

pub(super) fn check(cluster: &mut Cluster<'_>) -> anyhow::Result<String> {
    let layout = cluster.layout;
    kubernetes(layout)?;
    compose(layout)?;
    nginx_file(layout)?;
    Ok("Kubernetes, compose and nginx accept them".to_owned())
}

fn kubernetes(layout: &Layout) -> anyhow::Result<()> {
    let package = Package::new(layout, "replicas", "kubernetes-validate");
    install::install_python(&package, VALIDATOR)?;
    let output = Command::new(package.dir.join("bin/kubernetes-validate"))
        .args(["--strict", "--quiet"])
        .arg(layout.root.join("docs/examples/kubernetes.yaml"))
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubernetes.yaml: {text:.500}");
    Ok(())
}

fn compose(layout: &Layout) -> anyhow::Result<()> {
    let program = docker::install_plugins(layout)?.join("docker-compose");
    let config = |missing: Option<&str>| {
        let mut compose = Command::new(&program);
        compose.arg("--file").arg(layout.root.join(COMPOSE_FILE));
        compose.args(["config", "--quiet"]);
        for name in SECRETS {
            match missing == Some(name) {
                true => compose.env_remove(name),
                false => compose.env(name, "secret"),
            };
        }
        compose.output()
    };
    let valid = config(None)?;
    let text = String::from_utf8_lossy(&valid.stderr);
    ensure!(valid.status.success(), "{COMPOSE_FILE}: {text:.500}");
    for name in SECRETS {
        let refused = config(Some(name))?;
        let text = String::from_utf8_lossy(&refused.stderr);
        let is_named = !refused.status.success() && text.contains(name);
        ensure!(is_named, "{COMPOSE_FILE} starts without {name}");
    }
    Ok(())
}

fn nginx_file(layout: &Layout) -> anyhow::Result<()> {
    let dir = layout.backends().join("replicas-nginx");
    clear_dir(&dir)?;
    let text = fs::read_to_string(layout.root.join("docker-compose.nginx.conf"))?;
    // Its names exist only in the network of the project, and its folder only in the container.
    let text = (1..=3).fold(text, |text, at| {
        text.replace(&format!("mcp-gateway-{at}:"), "127.0.0.1:")
    });
    let file = dir.join("nginx.conf");
    fs::write(&file, text.replace("/tmp/", &format!("{}/", dir.display())))?;
    let (program, libraries) = nginx::install(layout)?;
    let log = layout.fresh_log("replicas-nginx-file")?;
    let program = nginx::program(Program::new(program)?, &dir, &file, libraries);
    let is_valid = program
        .words("-t")
        .log_to(&log)?
        .succeeds(&layout.shutdown, None)?;
    ensure!(
        is_valid,
        "docker-compose.nginx.conf: {}",
        fs::read_to_string(&log)?
    );
    Ok(())
}
