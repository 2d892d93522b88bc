//! The gateway in front of the servers that run.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::instance::{Instance, Purpose};
use crate::layout::Layout;
use crate::process::{Process, Program};
use crate::servers::{Server, Token, announce};

/// Stands before its lines.
pub(crate) const NAME: &str = "gateway";
/// Its binary.
pub(crate) const PROGRAM: &str = "mcp-gateway";
/// Its port.
pub(crate) const PORT: u16 = 3455;

/// A gateway that runs.
pub(crate) struct Gateway {
    /// Its process.
    pub(crate) process: Process,
    // After the process: that has to be gone when the instance is given back.
    _instance: Instance,
}

/// Starts the gateway in front of these servers.
///
/// # Errors
/// When its port is in use, its configuration cannot be written or it cannot be started.
pub(crate) fn start<'a>(
    layout: &Layout,
    binaries: &Path,
    servers: impl Iterator<Item = &'a Server>,
) -> anyhow::Result<Gateway> {
    let instance = Instance::take(layout, NAME, Purpose::RunAll, PORT)?;
    if instance.port != PORT {
        bail!("port {PORT} is in use");
    }
    let file = instance.file("gateway.toml");
    fs::write(&file, config(servers))
        .with_context(|| format!("could not write {}", file.display()))?;
    let process = Program::new(binaries.join(PROGRAM))?
        .marked(instance.mark_of_server())
        .words(&format!("--bind 127.0.0.1 --port {PORT}"))
        .args(["--config".as_ref(), file.as_os_str()])
        .args(["--events".as_ref(), instance.file("events.db").as_os_str()])
        .without(["MCP_GATEWAY_BACKENDS"])
        .spawn_shown(NAME)?;
    announce(layout, NAME, PROGRAM, PORT);
    Ok(Gateway {
        process,
        _instance: instance,
    })
}

/// The servers ask for the token that the environment names; the file says where it is, not what.
fn config<'a>(servers: impl Iterator<Item = &'a Server>) -> String {
    let token = match Token::from_environment() {
        Token::None => String::new(),
        Token::Value(_) => "token = \"${MCP_TOKEN}\"\n".to_owned(),
        Token::File(_) => "token = \"file:${MCP_TOKEN_FILE}\"\n".to_owned(),
    };
    let mut text = "# Written anew by every `cargo xtask run-all`.\n".to_owned();
    for server in servers {
        let (name, url) = (server.name, server.url());
        let _ = write!(text, "\n[backends.{name}]\nurl = \"{url}\"\n{token}");
    }
    text
}
