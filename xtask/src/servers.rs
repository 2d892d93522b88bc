//! Our servers as programs: one per service, each on its own port.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use ureq::http::Method;

use crate::console::say;
use crate::http::Client;
use crate::instance::Instance;
use crate::layout::Layout;
use crate::process::{Process, Program};
use crate::secrets;
use crate::services::docker::{self, Engine};
use crate::services::openhands::{self, OpenHands};
use crate::services::{Environment, Service, n8n};

/// How long a server may take to answer after its start.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that speaks for a service.
#[derive(Debug)]
pub(crate) struct Server {
    /// The name of the service, for `--only` and as a prefix.
    pub(crate) name: &'static str,
    /// Its binary.
    pub(crate) program: &'static str,
    /// Its port.
    pub(crate) port: u16,
    /// A local one of the service.
    pub(crate) service: &'static dyn Service,
    /// The variable with the address of the service.
    pub(crate) address_variable: &'static str,
    /// Where the service listens unless told otherwise.
    pub(crate) default_address: &'static str,
    /// The port there.
    pub(crate) default_port: u16,
    /// Asks whether the service answers at an address.
    pub(crate) answers: fn(&str) -> bool,
    /// Variables that speak of another service than a local one.
    pub(crate) misleading: &'static [&'static str],
    /// Variables that speak of the local one.
    pub(crate) local: fn(&Instance) -> Environment,
}

/// All of them, in the order of their ports.
pub(crate) static SERVERS: [Server; 3] = [
    Server {
        name: "n8n",
        program: "n8n-mcp-server",
        port: 3456,
        service: &n8n::CURRENT,
        address_variable: "N8N_URL",
        default_address: "http://127.0.0.1:5678",
        default_port: 5678,
        answers: n8n::answers,
        misleading: &["N8N_API_KEY", "N8N_MCP_TOKEN", "N8N_WEBHOOK_URL"],
        local: |instance| {
            vec![
                ("N8N_URL", instance.url().into()),
                ("N8N_API_KEY_FILE", instance.file(n8n::API_KEY).into()),
                ("N8N_MCP_TOKEN_FILE", instance.file(n8n::MCP_TOKEN).into()),
            ]
        },
    },
    Server {
        name: "openhands",
        program: "openhands-mcp-server",
        port: 3457,
        service: &OpenHands,
        address_variable: "OPENHANDS_URL",
        default_address: "http://127.0.0.1:8000",
        default_port: 8000,
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
    },
    Server {
        name: "docker",
        program: "docker-mcp-server",
        port: 3458,
        service: &Engine,
        address_variable: "DOCKER_HOST",
        default_address: "unix:///var/run/docker.sock",
        // Any: an engine listens on a socket.
        default_port: 0,
        answers: |address| docker::answers(Path::new(address.trim_start_matches("unix://"))),
        misleading: &["DOCKER_CONTEXT", "DOCKER_TLS_VERIFY"],
        local: |instance| vec![("DOCKER_HOST", docker::host(instance).into())],
    },
];

impl Server {
    /// Returns the address of its endpoint.
    pub(crate) fn url(&self) -> String {
        url(self.port)
    }

    /// Starts it with these variables in place of others; its log goes to the terminal with a prefix.
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

/// Waits a moment until what was started on this port answers, and says whether it does.
pub(crate) fn announce(layout: &Layout, name: &str, program: &str, port: u16) {
    let is_up = || status(port).is_some();
    let verb = match layout.stop.wait_until(START_TIMEOUT, is_up) {
        true => "answers",
        false => "does not answer",
    };
    say(name, format_args!("{program} {verb} on {}", url(port)));
}

/// Returns the address of the endpoint on this port.
pub(crate) fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/mcp")
}

/// Returns true when nothing listens on this port.
pub(crate) fn port_is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Returns what the server on this port says of itself: `online` or `degraded`; `None` when it does
/// not answer.
pub(crate) fn status(port: u16) -> Option<String> {
    let mut client = Client::new(&format!("http://127.0.0.1:{port}"), Duration::from_secs(5));
    if let Some(token) = Token::from_environment().read() {
        client = client.with("authorization", format!("Bearer {token}"));
    }
    let question = json!({ "jsonrpc": "2.0", "id": 1, "method": "mcp.getServerInfo" });
    let answer = client.send(Method::POST, "/mcp", &question).ok()?;
    Some(answer["result"]["status"].as_str()?.to_owned())
}

/// Returns a line for the terminal that lists the server's tools.
pub(crate) fn curl(url: &str) -> String {
    // The shell of the reader has to know the token; it is not printed.
    let token = match Token::from_environment() {
        Token::None => "",
        Token::Value(_) => " -H \"Authorization: Bearer $MCP_TOKEN\"",
        Token::File(_) => " -H \"Authorization: Bearer $(cat \"$MCP_TOKEN_FILE\")\"",
    };
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    format!("curl -s {url}{token} -H 'Content-Type: application/json' -d '{body}'")
}

/// The token that the servers ask for, as the environment tells them.
pub(crate) enum Token {
    /// They ask for none.
    None,
    /// In a variable.
    Value(String),
    /// In a file that a variable names.
    File(PathBuf),
}

impl Token {
    /// Looks into `MCP_TOKEN` and `MCP_TOKEN_FILE`.
    pub(crate) fn from_environment() -> Self {
        let var = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        match (var("MCP_TOKEN"), var("MCP_TOKEN_FILE")) {
            (Some(token), _) => Self::Value(token),
            (None, Some(file)) => Self::File(file.into()),
            (None, None) => Self::None,
        }
    }

    fn read(self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Value(token) => Some(token),
            Self::File(file) => secrets::read(&file),
        }
    }
}
