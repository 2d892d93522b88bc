//! Our servers as `run-all` starts them: one per service and the gateway, each on its own port.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::json;
use ureq::http::Method;

use crate::http::Client;
use crate::instance::{Instance, Purpose};
use crate::layout::Layout;
use crate::process::{Process, Program};
use crate::secrets;
use crate::services::{Environment, Service, docker, n8n, openhands};

/// The time after a start in which a server must answer.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// A server for one service.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) program: &'static str,
    pub(crate) port: u16,
    /// The local service.
    pub(crate) service: &'static dyn Service,
    pub(crate) default_address: &'static str,
    /// Returns true if the service answers at an address.
    pub(crate) answers: fn(&str) -> bool,
    /// Variables for another service than the local one.
    misleading: &'static [&'static str],
    /// Returns the variables for the local service; the first is its address.
    pub(crate) local: fn(&Instance) -> Environment,
    /// A tool whose call needs no arguments and shows something.
    pub(crate) first_call: &'static str,
}

/// All servers, in the order of their ports.
pub(crate) static SERVERS: [Server; 3] = [
    Server {
        name: "n8n",
        program: "n8n-mcp-server",
        port: 3456,
        service: &n8n::CURRENT,
        default_address: "http://127.0.0.1:5678",
        answers: n8n::answers,
        misleading: &["N8N_API_KEY", "N8N_MCP_TOKEN", "N8N_WEBHOOK_URL"],
        local: |instance| {
            vec![
                ("N8N_URL", instance.url().into()),
                ("N8N_API_KEY_FILE", instance.file(n8n::API_KEY).into()),
                ("N8N_MCP_TOKEN_FILE", instance.file(n8n::MCP_TOKEN).into()),
            ]
        },
        first_call: "list_workflows",
    },
    Server {
        name: "openhands",
        program: "openhands-mcp-server",
        port: 3457,
        service: &openhands::CURRENT,
        default_address: "http://127.0.0.1:8000",
        answers: openhands::answers,
        misleading: &["OPENHANDS_API_KEY", "OPENHANDS_AGENT_PROFILE"],
        local: |instance| {
            let (key, workspace) = (openhands::API_KEY, openhands::WORKSPACE);
            vec![
                ("OPENHANDS_URL", instance.url().into()),
                ("OPENHANDS_API_KEY_FILE", instance.file(key).into()),
                ("OPENHANDS_WORKSPACE_ROOT", instance.file(workspace).into()),
            ]
        },
        first_call: "list_tasks",
    },
    Server {
        name: "docker",
        program: "docker-mcp-server",
        port: 3458,
        service: &docker::DOCKER,
        default_address: "unix:///var/run/docker.sock",
        answers: |address| docker::answers(Path::new(address.trim_start_matches("unix://"))),
        misleading: &["DOCKER_CONTEXT", "DOCKER_TLS_VERIFY"],
        local: |instance| vec![("DOCKER_HOST", docker::host(instance).into())],
        first_call: "list_containers",
    },
];

impl Server {
    /// Returns the default port of the service; 0 for an engine, which listens on a socket.
    pub(crate) fn default_port(&self) -> u16 {
        let port = self.default_address.rsplit(':').next();
        port.and_then(|port| port.parse().ok()).unwrap_or(0)
    }

    /// Starts it with these variables for a local service; its log goes to the terminal.
    pub(crate) fn start(
        &self,
        binaries: &Path,
        instance: &Instance,
        local: Option<Environment>,
    ) -> anyhow::Result<Process> {
        let misleading = local.iter().flat_map(|_| self.misleading);
        Program::new(binaries.join(self.program))?
            .marked(instance.mark_of_server())
            .words(&format!("--bind 127.0.0.1 --port {}", self.port))
            .without(misleading)
            .envs(local.unwrap_or_default())
            .spawn_shown(self.name)
    }
}

pub(crate) struct Gateway {
    pub(crate) process: Process,
    // After the process, which must end before the instance is unlocked.
    _instance: Instance,
}

impl Gateway {
    pub(crate) const NAME: &str = "gateway";
    pub(crate) const PROGRAM: &str = "mcp-gateway";
    pub(crate) const PORT: u16 = 3455;
    pub(crate) const FIRST_CALL: &str = "gateway_status";

    /// Starts the gateway with these servers as its backends.
    ///
    /// # Errors
    /// When its port is in use, or it cannot be configured or started.
    pub(crate) fn start<'a>(
        layout: &Layout,
        binaries: &Path,
        servers: impl Iterator<Item = &'a Server>,
    ) -> anyhow::Result<Self> {
        let instance = Instance::lock(layout, Self::NAME, Purpose::RunAll, Self::PORT)?;
        if instance.port != Self::PORT {
            bail!("port {} is in use", Self::PORT);
        }
        let file = instance.file("gateway.toml");
        fs::write(&file, gateway_config(servers))
            .with_context(|| format!("could not write {}", file.display()))?;
        let process = Program::new(binaries.join(Self::PROGRAM))?
            .marked(instance.mark_of_server())
            .words(&format!("--bind 127.0.0.1 --port {}", Self::PORT))
            .args(["--config".as_ref(), file.as_os_str()])
            .args(["--events".as_ref(), instance.file("events.db").as_os_str()])
            .without(["MCP_GATEWAY_BACKENDS"])
            .spawn_shown(Self::NAME)?;
        announce(layout, Self::NAME, Self::PROGRAM, Self::PORT);
        Ok(Self {
            process,
            _instance: instance,
        })
    }
}

/// Returns the gateway's file. It names the variable of the servers' token, not the token.
fn gateway_config<'a>(servers: impl Iterator<Item = &'a Server>) -> String {
    let token = Token::from_environment();
    let token = token.map(|token| format!("token = \"{}\"\n", token.toml));
    let token = token.unwrap_or_default();
    let mut text = "# Every `cargo xtask run-all` overwrites this file.\n".to_owned();
    for server in servers {
        let (name, url) = (server.name, url(server.port));
        let _ = write!(text, "\n[backends.{name}]\nurl = \"{url}\"\n{token}");
    }
    text
}

/// Waits a moment for a started server, and prints whether it answers. Returns true if it does.
pub(crate) fn announce(layout: &Layout, name: &str, program: &str, port: u16) -> bool {
    let answers = (layout.shutdown).wait_until(START_TIMEOUT, || status(port).is_some());
    let verb = if answers {
        "answers"
    } else {
        "does not answer"
    };
    print_as!(name, "{program} {verb} on {}", url(port));
    answers
}

pub(crate) fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/mcp")
}

/// True if the servers ask for a token.
pub(crate) fn has_token() -> bool {
    Token::from_environment().is_some()
}

/// The address of the page of the server on this port.
pub(crate) fn page(port: u16) -> String {
    format!("http://127.0.0.1:{port}/")
}

pub(crate) fn port_is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Returns the status of the server on this port, `online` or `degraded`; `None` if it does not answer.
pub(crate) fn status(port: u16) -> Option<String> {
    let mut client = Client::new(&format!("http://127.0.0.1:{port}"), Duration::from_secs(5));
    if let Some(token) = Token::from_environment().and_then(|token| token.value) {
        client = client.with("authorization", format!("Bearer {token}"));
    }
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "mcp.getServerInfo" });
    let response = client.send(Method::POST, "/mcp", &request).ok()?;
    Some(response["result"]["status"].as_str()?.to_owned())
}

/// Returns a command line that calls a tool of the server.
pub(crate) fn curl(port: u16, tool: &str) -> String {
    // The token is not printed; the reader's shell inserts it.
    let token = Token::from_environment();
    let token = token.map(|token| format!(" -H \"Authorization: Bearer {}\"", token.shell));
    let token = token.unwrap_or_default();
    let params = format!(r#"{{"name":"{tool}","arguments":{{}}}}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"mcp.callTool","params":{params}}}"#);
    let url = url(port);
    format!("curl -s {url}{token} -H 'Content-Type: application/json' -d '{body}'")
}

/// Returns the command that connects a host to a running server.
pub(crate) fn connect(layout: &Layout, release: bool, program: &str, port: u16) -> String {
    let file = layout.binaries(release).join(program);
    let token = Token::from_environment().map_or("", |token| token.connect);
    let (file, url) = (layout.shown(&file), url(port));
    format!("{file} connect claude-code --http {url}{token}")
}

/// The servers' token, in the environment.
struct Token {
    value: Option<String>,
    /// The token in the gateway's file, and in a shell. Both name the variable.
    toml: &'static str,
    shell: &'static str,
    /// The token as an option of `connect`.
    connect: &'static str,
}

impl Token {
    fn from_environment() -> Option<Self> {
        if let Some(token) = var("MCP_TOKEN") {
            return Some(Self {
                value: Some(token),
                toml: "${MCP_TOKEN}",
                shell: "$MCP_TOKEN",
                connect: " --token-env MCP_TOKEN",
            });
        }
        Some(Self {
            value: secrets::read(Path::new(&var("MCP_TOKEN_FILE")?)),
            toml: "file:${MCP_TOKEN_FILE}",
            shell: "$(cat \"$MCP_TOKEN_FILE\")",
            connect: " --token-file \"$MCP_TOKEN_FILE\"",
        })
    }
}

/// The origin of a server's service.
#[derive(Debug)]
pub(crate) enum ServiceSource {
    /// Named in the environment; the server reads that itself.
    Configured(String),
    /// Found at its default address.
    Found(String),
    /// To be started on this machine, at this address.
    Local(String),
    /// Not available, with the reason.
    Missing(String),
}

impl ServiceSource {
    /// Checks the environment, the default address, and whether a local one can be started.
    pub(crate) fn find(
        layout: &Layout,
        server: &Server,
        instance: &Instance,
        may_start: bool,
    ) -> Self {
        let (variable, local) = (server.local)(instance).swap_remove(0);
        if let Some(address) = var(variable) {
            return Self::Configured(address);
        }
        let address = server.default_address;
        if (server.answers)(address) {
            return Self::Found(address.to_owned());
        }
        if !may_start {
            return Self::Missing(format!(
                "nothing answers at {address}, its default address, and --no-local was given"
            ));
        }
        match server.service.obstacle(layout) {
            Some(obstacle) => Self::Missing(obstacle),
            None => Self::Local(local.to_string_lossy().into_owned()),
        }
    }

    /// Returns the address and the origin, for the table.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Configured(address) => format!("{address} (as configured)"),
            Self::Found(address) => format!("{address} (found there)"),
            Self::Local(address) => format!("{address} (local)"),
            Self::Missing(_) => "none".to_owned(),
        }
    }

    /// Returns advice for the user.
    pub(crate) fn advice(&self, server: &Server) -> Option<String> {
        let address = match self {
            Self::Configured(address) | Self::Found(address) => address,
            Self::Local(_) => return None,
            Self::Missing(why) => return Some(why.clone()),
        };
        let is_missing = |name: &str| var(name).is_none() && var(&format!("{name}_FILE")).is_none();
        match server.name {
            "n8n" if is_missing("N8N_API_KEY") => Some(format!(
                "N8N_API_KEY must be set for the n8n at {address}; make a key there under Settings > n8n API, then start again"
            )),
            "openhands" if is_missing("OPENHANDS_API_KEY") => Some(format!(
                "OPENHANDS_API_KEY is not set; the OpenHands at {address} is used without a key"
            )),
            _ => None,
        }
    }
}

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
