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

use super::image::{self, PROGRAMS};
use super::programs;
use crate::install::Unavailable;
use crate::instance::{Instance, Purpose};
use crate::layout::Layout;
use crate::secrets;
use crate::services::Service;
use crate::services::docker::cli::Cli;
use crate::services::docker::{self, IMAGE, NewerEngine};

const PROJECT: &str = "check";

/// How long the servers may take to answer, on a machine that does much else.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// What is asked of each server: its port, and tools that it has to list. The gateway finds the
/// others by their names in the network of the project.
const SERVERS: [(&str, u16, &[&str]); 4] = [
    ("n8n-mcp-server", 3456, &["list_workflows"]),
    ("openhands-mcp-server", 3457, &["run_task"]),
    ("docker-mcp-server", 3458, &["list_containers"]),
    (
        "mcp-gateway",
        3455,
        &[
            "n8n__list_workflows",
            "openhands__run_task",
            "docker__list_containers",
        ],
    ),
];

/// A project that is up.
struct Project<'a> {
    layout: &'a Layout,
    cli: Cli,
    compose: PathBuf,
    socket: PathBuf,
    token: String,
}

/// Links the programs of the ordinary build, and checks with them.
///
/// # Errors
/// [`Unavailable`] among them, where it cannot be checked on this machine.
pub(crate) fn linked(layout: &Layout) -> anyhow::Result<()> {
    install(layout)?;
    run(layout, &programs::link(layout)?)
}

/// Fetches the engine and compose; returns the folder of that.
fn install(layout: &Layout) -> anyhow::Result<PathBuf> {
    let unavailable = |error| Unavailable(format!("{error:#}"));
    if let Some(obstacle) = NewerEngine.obstacle(layout) {
        bail!(Unavailable(obstacle));
    }
    NewerEngine.install(layout).map_err(unavailable)?;
    Ok(docker::install_compose(layout).map_err(unavailable)?)
}

/// Checks with the programs in a folder.
///
/// # Errors
/// What is not as it should be, or cannot be looked at here.
pub(super) fn run(layout: &Layout, programs: &Path) -> anyhow::Result<()> {
    let compose = install(layout)?;
    let instance = Instance::take(layout, "compose", Purpose::Test, 0)?;
    instance.clear()?;
    let engine = NewerEngine.start(layout, &instance)?;
    let project = Project {
        layout,
        cli: Cli::new(layout, &instance)?,
        compose: compose.join("docker-compose"),
        socket: docker::socket(&instance),
        token: secrets::random()?,
    };
    let checked = project.check(programs);
    drop(engine);
    instance.clear()?;
    checked
}

impl Project<'_> {
    fn check(&self, programs: &Path) -> anyhow::Result<()> {
        image::load(self.layout, programs, &self.cli)?;
        let up = ["up", "--detach", "--no-build", "--pull", "never"];
        self.compose(&[&up[..], &PROGRAMS].concat())?;
        for (server, port, tools) in SERVERS {
            self.answers(port, tools)
                .and_then(|()| confined::check(&self.cli, server))
                .context(server)?;
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
            .envs(
                ["MCP_TOKEN", "OPENHANDS_API_KEY", "OH_SECRET_KEY"].map(|name| (name, &self.token)),
            )
            .env("DOCKER_GID", &group)
            .env("DOCKER_SOCKET", &self.socket)
            .envs([("N8N_API_KEY", ""), ("N8N_MCP_TOKEN", "")])
            .stdout(Stdio::null())
            .output()
            .context("compose")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "compose: {}", said.trim());
        Ok(())
    }

    /// Waits until the server behind a published port lists `tools`, and to nobody without the token.
    fn answers(&self, port: u16, tools: &[&str]) -> anyhow::Result<()> {
        let mut said = String::new();
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let listed = self.layout.stop.wait_until(ANSWER_TIMEOUT, || {
            let answer = self.ask(port, Some(&self.token), &list);
            said = answer.unwrap_or_else(|error| error.to_string());
            let is_listed = |tool: &&str| said.contains(&format!(r#""name":"{tool}""#));
            tools.iter().all(is_listed)
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
        args.extend("timeout 30 wget -q -O - --header".split(' '));
        args.push("Content-Type: application/json");
        args.extend(authorization.iter().flat_map(|value| ["--header", value]));
        args.extend(["--post-data", &message, &url]);
        self.cli.expect(&args)
    }

    /// Looks whether the server with the socket can use it, asked through the gateway.
    fn sees_containers(&self) -> anyhow::Result<()> {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "docker__list_containers", "arguments": {"project": PROJECT}}});
        let said = self.ask(3455, Some(&self.token), &call)?;
        for program in PROGRAMS {
            let is_listed = said.contains(&confined::container(program));
            ensure!(is_listed, "{program} is not listed: {said:.300}");
        }
        Ok(())
    }
}
