//! Our servers as `run-all` starts them: one per service and the gateway, each on its own port.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use ureq::http::Method;

use crate::http::Client;
use crate::instance::{Instance, Purpose};
use crate::process::{Process, Program};
use crate::services::{Environment, Service, docker, n8n, openhands};
use crate::{layout, secrets, shutdown};

#[path = "../../crates/mcp-gateway/src/servers.rs"]
mod table;

/// The time after a start in which a server must answer.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(5);

/// The programs of this workspace, in the order of the ports.
pub(crate) static PROGRAMS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let servers = table::SERVERS.iter().map(|(_, program, _)| *program);
    [Gateway::PROGRAM].into_iter().chain(servers).collect()
});

pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) program: &'static str,
    pub(crate) port: u16,
    /// Its service on this machine; `None` if it needs none, or `run-all` cannot start it.
    pub(crate) local: Option<LocalService>,
}

/// The service of a server, as `run-all` finds and starts it.
pub(crate) struct LocalService {
    pub(crate) service: &'static dyn Service,
    pub(crate) default_address: &'static str,
    /// Returns true if it answers at an address.
    answers: fn(&str) -> bool,
    /// Variables for another service than the local one.
    misleading: &'static [&'static str],
    /// Returns the variables for the local service; the first is its address.
    environment: fn(&Instance) -> Environment,
    /// A tool whose call needs no arguments and shows something.
    pub(crate) first_call: &'static str,
}

/// All servers, in the order of their ports.
pub(crate) static SERVERS: LazyLock<Vec<Server>> = LazyLock::new(|| {
    let servers = table::SERVERS.iter();
    let servers = servers.map(|&(name, program, port)| Server {
        name,
        program,
        port,
        local: local_service(name),
    });
    servers.collect()
});

fn local_service(name: &str) -> Option<LocalService> {
    Some(match name {
        "n8n" => LocalService {
            service: &n8n::N8n,
            default_address: "http://127.0.0.1:5678",
            answers: n8n::answers,
            misleading: &["N8N_API_KEY", "N8N_MCP_TOKEN", "N8N_WEBHOOK_URL"],
            environment: |instance| {
                vec![
                    ("N8N_URL", instance.url().into()),
                    ("N8N_API_KEY_FILE", instance.file(n8n::API_KEY).into()),
                    ("N8N_MCP_TOKEN_FILE", instance.file(n8n::MCP_TOKEN).into()),
                ]
            },
            first_call: "list_workflows",
        },
        "openhands" => LocalService {
            service: &openhands::CURRENT,
            default_address: "http://127.0.0.1:8000",
            answers: openhands::answers,
            misleading: &["OPENHANDS_API_KEY", "OPENHANDS_AGENT_PROFILE"],
            environment: |instance| {
                let file = |name| instance.file(name).into();
                vec![
                    ("OPENHANDS_URL", instance.url().into()),
                    ("OPENHANDS_API_KEY_FILE", file(openhands::API_KEY)),
                    ("OPENHANDS_WORKSPACE_ROOT", file(openhands::WORKSPACE)),
                ]
            },
            first_call: "list_tasks",
        },
        "docker" => LocalService {
            service: &docker::DOCKER,
            default_address: "unix:///var/run/docker.sock",
            answers: |address| docker::answers(Path::new(address.trim_start_matches("unix://"))),
            misleading: &["DOCKER_CONTEXT", "DOCKER_TLS_VERIFY"],
            environment: |instance| vec![("DOCKER_HOST", docker::host(instance).into())],
            first_call: "list_containers",
        },
        _ => return None,
    })
}

impl Server {
    /// Returns the default port of the service; 0 for one that listens on no port.
    pub(crate) fn service_port(&self) -> u16 {
        let local = self.local.as_ref();
        let port = local.and_then(|local| local.default_address.rsplit(':').next());
        port.and_then(|port| port.parse().ok()).unwrap_or(0)
    }

    /// Starts it, with the variables of its local service if it `is_local`; its log goes to the terminal.
    pub(crate) fn start(
        &self,
        release: bool,
        instance: &Instance,
        is_local: bool,
    ) -> Result<Process> {
        let local = self.local.iter().filter(|_| is_local);
        program(release, self.program, self.port, instance)
            .without(local.clone().flat_map(|local| local.misleading))
            .envs(local.flat_map(|local| (local.environment)(instance)))
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
    pub(crate) fn start(release: bool, servers: &[&Server]) -> Result<Self> {
        let port = Self::PORT;
        let instance = Instance::lock(Self::NAME, Purpose::RunAll, port)?;
        ensure!(instance.port == port, "port {port} is in use");
        let file = instance.file("gateway.toml");
        let written = fs::write(&file, gateway_config(servers));
        written.with_context(|| format!("could not write {}", file.display()))?;
        let process = program(release, Self::PROGRAM, port, &instance)
            .option("--config", file)
            .option("--events", instance.file("events.db"))
            .without(["MCP_GATEWAY_BACKENDS"])
            .spawn_shown(Self::NAME)?;
        announce(Self::NAME, Self::PROGRAM, port);
        Ok(Self {
            process,
            _instance: instance,
        })
    }
}

fn program(release: bool, name: &str, port: u16, instance: &Instance) -> Program {
    Program::new(layout::binaries(release).join(name))
        .marked(instance.mark_of_server())
        .words(&format!("--bind 127.0.0.1 --port {port}"))
}

/// Returns the gateway's file. It names the variable of the servers' token, not the token.
fn gateway_config(servers: &[&Server]) -> String {
    let token = token().map_or_else(String::new, |[token, ..]| format!("token = \"{token}\"\n"));
    let mut text = "# Every `cargo xtask run-all` overwrites this file.\n".to_owned();
    for server in servers {
        let (name, url) = (server.name, url(server.port));
        text += &format!("\n[backends.{name}]\nurl = \"{url}\"\n{token}");
    }
    text
}

/// Waits a moment for a started server, and prints whether it answers. Returns true if it does.
pub(crate) fn announce(name: &str, program: &str, port: u16) -> bool {
    let answers = shutdown::wait_until(START_TIMEOUT, || status(port).is_some());
    let verb = match answers {
        true => "answers",
        false => "does not answer",
    };
    print_as!(name, "{program} {verb} on {}", url(port));
    answers
}

pub(crate) fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/mcp")
}

/// Returns the status of the server on this port, `online` or `degraded`; `None` if it does not answer.
pub(crate) fn status(port: u16) -> Option<String> {
    let by_file = || secrets::read(Path::new(&var("MCP_TOKEN_FILE")?));
    let token = var("MCP_TOKEN").or_else(by_file);
    let header = token.map(|token| ("authorization", format!("Bearer {token}")));
    let client = Client::at(port, Duration::from_secs(5)).with_all(header);
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "mcp.getServerInfo" });
    let response = client.send(Method::POST, "/mcp", &request).ok()?;
    Some(response["result"]["status"].as_str()?.to_owned())
}

/// Returns a command that calls a running server, and one that connects a host to it.
pub(crate) fn first_steps(release: bool, program: &str, port: u16, tool: Option<&str>) -> String {
    let (curl, connect) = (curl(port, tool), connect(release, program, port));
    format!(
        "{curl}\n\nConnect Claude Code to it (--dry-run shows the change, --undo takes it back):\n\n{connect}\n"
    )
}

/// Returns a command line that calls a tool of the server, or lists its tools.
fn curl(port: u16, tool: Option<&str>) -> String {
    let header = |[_, token, _]: [_; 3]| format!(" -H \"Authorization: Bearer {token}\"");
    let (url, header) = (url(port), token().map_or_else(String::new, header));
    let body = match tool {
        Some(tool) => json!({"jsonrpc": "2.0", "id": 1, "method": "mcp.callTool",
            "params": {"name": tool, "arguments": {}}}),
        None => json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    };
    format!("curl -s {url}{header} -H 'Content-Type: application/json' -d '{body}'")
}

/// Returns the command that connects a host to a running server.
fn connect(release: bool, program: &str, port: u16) -> String {
    let file = layout::binaries(release).join(program);
    let token = token().map_or("", |[.., token]| token);
    let (file, url) = (layout::shown(&file), url(port));
    format!("{file} connect claude-code --http {url}{token}")
}

/// Returns the servers' token as it stands in the gateway's file, in a shell, and as an option of `connect`. All of them
/// name the variable, so that the token is not printed.
pub(crate) fn token() -> Option<[&'static str; 3]> {
    if var("MCP_TOKEN").is_some() {
        return Some(["${MCP_TOKEN}", "$MCP_TOKEN", " --token-env MCP_TOKEN"]);
    }
    let by_file = [
        "file:${MCP_TOKEN_FILE}",
        "$(cat \"$MCP_TOKEN_FILE\")",
        " --token-file \"$MCP_TOKEN_FILE\"",
    ];
    var("MCP_TOKEN_FILE").map(|_| by_file)
}

/// The origin of a server's service.
#[derive(Default)]
pub(crate) struct ServiceSource {
    /// The address and the origin, for the table.
    pub(crate) shown: String,
    /// The line for the user before the start.
    pub(crate) line: Option<String>,
    /// True if it is to be started on this machine.
    pub(crate) is_local: bool,
    /// True if the server needs it, and there is none.
    pub(crate) is_missing: bool,
}

impl ServiceSource {
    /// Checks the environment, the default address, and whether a local one can be started.
    pub(crate) fn find(server: &Server, instance: &Instance, may_start: bool) -> Self {
        let mut source = Self {
            shown: "none".to_owned(),
            ..Self::default()
        };
        let Some(service) = &server.local else {
            return source;
        };
        let (variable, local) = (service.environment)(instance).swap_remove(0);
        let address = service.default_address;
        if let Some(address) = var(variable) {
            source.shown = format!("{address} (as configured)");
            source.line = Some(format!("using {}", source.shown));
        } else if (service.answers)(address) {
            source.shown = format!("{address} (found there)");
            source.line = Some(format!("using {}", source.shown));
        } else if !may_start {
            let why = "its default address, and --no-local was given";
            source.line = Some(format!("nothing answers at {address}, {why}"));
            source.is_missing = true;
        } else if let Some(obstacle) = service.service.obstacle() {
            source.line = Some(obstacle);
            source.is_missing = true;
        } else {
            source.shown = format!("{} (local)", local.display());
            source.is_local = true;
            source.line = Some(match service.service.to_fetch() {
                Some(what) => format!("will download {what}, once"),
                None => format!("will start {}", source.shown),
            });
        }
        source
    }
}

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_steps_call_the_server_and_connect_a_host_to_it() {
        for (program, port) in [
            ("docker-mcp-server", 3458),
            (Gateway::PROGRAM, Gateway::PORT),
        ] {
            let text = first_steps(false, program, port, Some("any_tool"));
            let url = url(port);
            for part in [
                format!("curl -s {url}"),
                "\"name\":\"any_tool\"".to_owned(),
                format!("debug/{program} connect claude-code --http {url}"),
            ] {
                assert!(text.contains(&part), "{part}: {text}");
            }
        }
    }
}
