//! `cargo xtask images --check`: starts the project of docker-compose.yml from these images, on an
//! engine without a network, and checks that every server answers and is isolated.
//!
//! The services behind the servers have images of others, which only a registry has. The servers must
//! start without them.

mod isolation;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::{PROGRAMS, image, import, static_link};
use crate::install::unavailable;
use crate::instance::{Instance, Purpose};
use crate::layout::Layout;
use crate::secrets;
use crate::services::Service;
use crate::services::docker::cli::{Cli, IMAGE};
use crate::services::docker::{self, DOCKER_26};

const PROJECT: &str = "check";

/// The servers must answer in this time, on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// The servers with their ports and tools that they must list. The gateway finds the others by their
/// names in the network of the project.
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

/// A project on an engine.
struct Project<'a> {
    layout: &'a Layout,
    cli: Cli,
    compose: PathBuf,
    socket: PathBuf,
    token: String,
}

/// Links the programs of the normal build and checks with them.
///
/// # Errors
/// [`crate::install::Unavailable`] if it cannot be checked on this machine, among others.
pub(crate) fn run_linked(layout: &Layout) -> anyhow::Result<()> {
    install(layout)?;
    run(layout, &static_link::link_debug(layout)?)
}

/// Installs the engine and compose; returns the folder of compose.
fn install(layout: &Layout) -> anyhow::Result<PathBuf> {
    if let Some(obstacle) = DOCKER_26.obstacle(layout) {
        bail!(unavailable(obstacle));
    }
    let installed = DOCKER_26.install(layout);
    let compose = installed.and_then(|()| docker::install_compose(layout));
    compose.map_err(|error| unavailable(format!("{error:#}")))
}

/// Checks with the programs in a folder.
pub(super) fn run(layout: &Layout, programs: &Path) -> anyhow::Result<()> {
    let compose = install(layout)?;
    let instance = Instance::lock(layout, "compose", Purpose::Test, 0)?;
    instance.clear()?;
    let engine = DOCKER_26.start(layout, &instance)?;
    let project = Project {
        layout,
        cli: Cli::new(layout, &instance)?,
        compose: compose.join("docker-compose"),
        socket: docker::socket(&instance),
        token: secrets::random()?,
    };
    let result = project.check(programs);
    drop(engine);
    instance.clear()?;
    result
}

impl Project<'_> {
    fn check(&self, programs: &Path) -> anyhow::Result<()> {
        import(self.layout, programs, &self.cli)?;
        let up = ["up", "--detach", "--no-build", "--pull", "never"];
        self.compose(&[&up[..], &PROGRAMS].concat())?;
        for (server, port, tools) in SERVERS {
            self.check_answers(port, tools)
                .and_then(|()| isolation::check(&self.cli, server, &image(server)))
                .context(server)?;
        }
        self.check_listed_containers()?;
        self.compose(&["down", "--volumes"])?;
        let left = self.cli.run(&["ps", "--all", "--quiet"])?;
        ensure!(left.is_empty(), "`down` has left containers");
        Ok(())
    }

    fn compose(&self, args: &[&str]) -> anyhow::Result<()> {
        let group = fs::metadata(&self.socket)?.gid().to_string();
        let secrets = ["MCP_TOKEN", "OPENHANDS_API_KEY", "OH_SECRET_KEY"];
        let mut compose = self.cli.program(&self.compose);
        compose.args(["--project-name", PROJECT, "--file"]);
        compose.arg(self.layout.root.join("docker-compose.yml"));
        compose.args(args);
        compose.envs(secrets.map(|name| (name, &self.token)));
        compose.env("DOCKER_GID", &group);
        compose.env("DOCKER_SOCKET", &self.socket);
        compose.envs([("N8N_API_KEY", ""), ("N8N_MCP_TOKEN", "")]);
        let output = compose.output().context("compose")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "compose: {}", error.trim());
        Ok(())
    }

    /// Waits until the server behind a published port lists `tools`, and checks that it wants the token.
    fn check_answers(&self, port: u16, tools: &[&str]) -> anyhow::Result<()> {
        let mut response = String::new();
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let is_listed = self.layout.shutdown.wait_until(ANSWER_TIMEOUT, || {
            let result = self.post(port, Some(&self.token), &list);
            response = result.unwrap_or_else(|error| error.to_string());
            let is_listed = |tool: &&str| response.contains(&format!(r#""name":"{tool}""#));
            tools.iter().all(is_listed)
        });
        ensure!(is_listed, "it does not list {tools:?}: {response:.300}");
        let refused = self.post(port, None, &list);
        let is_refused = refused.is_err_and(|error| error.to_string().contains("401"));
        ensure!(is_refused, "it answers without the token");
        Ok(())
    }

    /// Posts a message to a published port from inside of the engine's network.
    fn post(&self, port: u16, token: Option<&str>, message: &Value) -> anyhow::Result<String> {
        let (url, message) = (format!("http://127.0.0.1:{port}/mcp"), message.to_string());
        let authorization = token.map(|token| format!("Authorization: Bearer {token}"));
        let mut args = vec!["run", "--rm", "--network", "host", IMAGE];
        args.extend("timeout 30 wget -q -O - --header".split(' '));
        args.push("Content-Type: application/json");
        args.extend(authorization.iter().flat_map(|value| ["--header", value]));
        args.extend(["--post-data", &message, &url]);
        self.cli.run(&args)
    }

    /// Checks, through the gateway, that the server with the socket can use it.
    fn check_listed_containers(&self) -> anyhow::Result<()> {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "docker__list_containers", "arguments": {"project": PROJECT}}});
        let response = self.post(3455, Some(&self.token), &call)?;
        for program in PROGRAMS {
            let is_listed = response.contains(&isolation::container(program));
            ensure!(is_listed, "{program} is not listed: {response:.300}");
        }
        Ok(())
    }
}
