//! `cargo xtask images --check`: the project of docker-compose.yml comes up from these images, on an
//! engine that reaches no network, and every server in it answers and is shut in as it should be.
//!
//! The services that the servers are for have images of others, which only a registry has: the
//! servers have to come up without them.

mod confined;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::{SERVERS, load};
use crate::layout::Layout;
use crate::secrets;
use crate::services::docker::cli::Cli;
use crate::services::docker::{self, IMAGE};
use crate::services::{Place, Service};

const PROJECT: &str = "check";

/// How long the servers may take to answer, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(90);

/// A project that is up.
struct Project<'a> {
    layout: &'a Layout,
    cli: Cli,
    compose: PathBuf,
    socket: PathBuf,
    token: String,
}

/// Why it cannot be checked on this machine.
pub(crate) fn obstacle(layout: &Layout) -> Option<String> {
    let system = super::obstacle().map(str::to_owned);
    system
        .or_else(|| Service::Docker.obstacle(layout))
        .or_else(|| {
            let compose = docker::compose::install(layout);
            compose.err().map(|error| format!("compose: {error:#}"))
        })
        .or_else(|| {
            let engine = Service::Docker.install(layout);
            let engine = engine.and_then(|()| docker::newer::install(layout));
            engine.err().map(|error| format!("docker 26: {error:#}"))
        })
}

/// Links the programs of the ordinary build, and checks with them.
pub(crate) fn linked(layout: &Layout) -> anyhow::Result<()> {
    run(layout, &super::programs::link(layout)?)
}

/// Checks with the programs in a folder.
///
/// # Errors
/// What is not as it should be, or cannot be looked at here.
pub(super) fn run(layout: &Layout, programs: &Path) -> anyhow::Result<()> {
    if let Some(obstacle) = obstacle(layout) {
        bail!(obstacle);
    }
    let place = Place::take_compose(layout)?;
    place.clear()?;
    let engine = docker::start_newer(layout, &place, "dockerd-compose")?;
    let project = Project {
        layout,
        cli: Cli::new(layout, &place)?,
        compose: docker::compose::install(layout)?.join("docker-compose"),
        socket: docker::socket(&place),
        token: secrets::random()?,
    };
    let checked = project.check(programs);
    drop(engine);
    place.clear()?;
    checked
}

impl Project<'_> {
    fn check(&self, programs: &Path) -> anyhow::Result<()> {
        load(self.layout, programs, || Ok(self.cli.command()))?;
        let up = ["up", "--detach", "--no-build", "--pull", "never"];
        self.compose(&[&up[..], &SERVERS].concat())?;
        for (server, port, tools) in [
            ("n8n-mcp-server", 3456, &["list_workflows"][..]),
            ("openhands-mcp-server", 3457, &["run_task"]),
            ("docker-mcp-server", 3458, &["list_containers"]),
            // It finds the others by their names in the network of the project.
            (
                "mcp-gateway",
                3455,
                &[
                    "n8n__list_workflows",
                    "openhands__run_task",
                    "docker__list_containers",
                ],
            ),
        ] {
            self.answers(port, tools)
                .with_context(|| server.to_owned())?;
            confined::check(&self.cli, server).with_context(|| server.to_owned())?;
        }
        self.sees_containers()?;
        self.compose(&["down", "--volumes"])?;
        let left = self.cli.expect(&["ps", "--all", "--quiet"])?;
        ensure!(left.is_empty(), "`down` has left containers");
        Ok(())
    }

    fn compose(&self, args: &[&str]) -> anyhow::Result<()> {
        let group = fs::metadata(&self.socket)?.gid().to_string();
        let output = self
            .cli
            .program(&self.compose)
            .args(["--project-name", PROJECT, "--file"])
            .arg(self.layout.root.join("docker-compose.yml"))
            .args(args)
            .envs([
                ("MCP_TOKEN", &self.token),
                ("OPENHANDS_API_KEY", &self.token),
                ("OH_SECRET_KEY", &self.token),
                ("DOCKER_GID", &group),
            ])
            .env("DOCKER_SOCKET", &self.socket)
            .envs([("N8N_API_KEY", ""), ("N8N_MCP_TOKEN", "")])
            .stdout(Stdio::null())
            .output()
            .context("compose")?;
        if !output.status.success() {
            bail!(
                "compose: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(())
    }

    /// Waits until the server behind a published port lists `tools`, and to nobody without the token.
    fn answers(&self, port: u16, tools: &[&str]) -> anyhow::Result<()> {
        let mut said = String::new();
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let listed = self.layout.stop.wait_until(PATIENCE, || {
            said = self
                .ask(port, Some(&self.token), &list)
                .unwrap_or_else(|error| error.to_string());
            tools
                .iter()
                .all(|tool| said.contains(&format!(r#""name":"{tool}""#)))
        });
        ensure!(listed, "it does not list {tools:?}, but says: {said:.300}");
        let refused = self.ask(port, None, &list);
        let is_refused = refused.is_err_and(|error| error.to_string().contains("401"));
        ensure!(is_refused, "it answers without the token");
        Ok(())
    }

    /// Sends a message to a published port from where the engine is, which has a network of its own.
    fn ask(&self, port: u16, token: Option<&str>, message: &Value) -> anyhow::Result<String> {
        let (url, message) = (format!("http://127.0.0.1:{port}/mcp"), message.to_string());
        let authorization = token.map(|token| format!("Authorization: Bearer {token}"));
        let mut args = vec!["run", "--rm", "--network", "host", IMAGE];
        args.extend(["timeout", "30", "wget", "-q"]);
        args.extend(["-O", "-", "--header", "Content-Type: application/json"]);
        args.extend(authorization.iter().flat_map(|value| ["--header", value]));
        args.extend(["--post-data", &message, &url]);
        self.cli.expect(&args)
    }

    /// The server with the socket can use it, asked through the gateway.
    fn sees_containers(&self) -> anyhow::Result<()> {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "docker__list_containers", "arguments": {"project": PROJECT}}});
        let said = self.ask(3455, Some(&self.token), &call)?;
        for server in SERVERS {
            ensure!(
                said.contains(&container(server)),
                "{server} is not listed: {said:.300}"
            );
        }
        Ok(())
    }
}

/// As compose calls the container of a service.
fn container(server: &str) -> String {
    format!("{PROJECT}-{server}-1")
}
