//! Our servers as programs: one per service, each on its own port.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use ureq::http::Method;

use crate::console;
use crate::discover::Source;
use crate::http::Client;
use crate::layout::Layout;
use crate::process::{GRACE, Process, Program};
use crate::secrets;
use crate::services::{Place, Service};

/// The address of the server's endpoint.
pub(crate) fn url(service: Service) -> String {
    format!("http://127.0.0.1:{}/mcp", service.port())
}

/// True when nothing listens on the server's port.
pub(crate) fn port_is_free(service: Service) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, service.port())).is_ok()
}

/// Starts the server; its log goes to the terminal with a prefix.
pub(crate) fn start(
    layout: &Layout,
    service: Service,
    release: bool,
    source: &Source,
    place: &Place,
) -> anyhow::Result<Process> {
    let binary = layout.binaries(release).join(service.server());
    let pid_file = place.server_pid_path();
    let mut program = Program::guarded(binary, GRACE, Some(&pid_file))?
        .args(["--bind", "127.0.0.1", "--port", &service.port().to_string()])
        .piped();
    for name in source.misleading(service) {
        program = program.env_remove(name);
    }
    let mut process = program.envs(source.environment(service, place)).spawn()?;
    process
        .outputs()
        .for_each(|output| console::follow(service.name(), output));
    Ok(process)
}

/// What the server says of itself: `online` or `degraded`; `None` when it does not answer.
pub(crate) fn status(service: Service) -> Option<String> {
    status_at(service.port())
}

/// The same of whatever server listens on `port`.
pub(crate) fn status_at(port: u16) -> Option<String> {
    let mut client = Client::new(&format!("http://127.0.0.1:{port}"), Duration::from_secs(5));
    if let Some(token) = Token::named().read() {
        client = client.with("authorization", format!("Bearer {token}"));
    }
    let question = json!({ "jsonrpc": "2.0", "id": 1, "method": "mcp.getServerInfo" });
    let answer = client.send(Method::POST, "/mcp", &question).ok()?;
    Some(answer["result"]["status"].as_str()?.to_owned())
}

/// A line for the terminal that lists the server's tools.
pub(crate) fn curl(url: &str) -> String {
    // The shell of the reader has to know the token; it is not printed.
    let token = match Token::named() {
        Token::None => "",
        Token::Value(_) => " -H \"Authorization: Bearer $MCP_TOKEN\"",
        Token::File(_) => " -H \"Authorization: Bearer $(cat \"$MCP_TOKEN_FILE\")\"",
    };
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    format!("curl -s {url}{token} -H 'Content-Type: application/json' -d '{body}'")
}

/// The token that the servers ask for, as the environment tells them.
pub(crate) enum Token {
    None,
    Value(String),
    File(PathBuf),
}

impl Token {
    pub(crate) fn named() -> Self {
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
