//! The gateway in front of the servers that run.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

use crate::console::{self, say};
use crate::identity::PidFile;
use crate::layout::{Layout, create_dir};
use crate::process::{GRACE, Process, Program};
use crate::servers::{self, Token};
use crate::services::Service;

/// Its name in front of its lines.
pub(crate) const NAME: &str = "gateway";
/// Its binary.
pub(crate) const SERVER: &str = "mcp-gateway";
/// Its port.
pub(crate) const PORT: u16 = 3455;

/// Its folder: the configuration that was written for it, and its events.
fn folder(layout: &Layout) -> PathBuf {
    layout.backends().join("run-all").join(NAME)
}

/// The address of its endpoint.
pub(crate) fn url() -> String {
    format!("http://127.0.0.1:{PORT}/mcp")
}

/// Starts the gateway in front of the servers of `services`. `None`, and a line that says why, where
/// it cannot be: the servers are of use without it.
///
/// # Errors
/// When its configuration cannot be written or it cannot be started.
pub(crate) fn start(
    layout: &Layout,
    release: bool,
    services: &[Service],
) -> anyhow::Result<Option<Process>> {
    let dir = folder(layout);
    create_dir(&dir)?;
    let pid_file = dir.with_extension("server-pid");
    if PidFile::at(pid_file.clone()).stop_leftover(&layout.stop, Duration::from_secs(25)) {
        say(NAME, "ended what a killed run had left running");
    }
    if TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).is_err() {
        say(NAME, format_args!("left out: port {PORT} is in use"));
        return Ok(None);
    }
    let file = dir.join("gateway.toml");
    fs::write(&file, config(services))
        .with_context(|| format!("could not write {}", file.display()))?;
    let binary = layout.binaries(release).join(SERVER);
    let mut process = Program::guarded(binary, GRACE, Some(&pid_file))?
        .args(["--bind", "127.0.0.1", "--port", &PORT.to_string()])
        .args([
            "--config".as_ref(),
            file.as_os_str(),
            "--events".as_ref(),
            dir.join("events.db").as_os_str(),
        ])
        .piped()
        .env_remove("MCP_GATEWAY_BACKENDS")
        .spawn()?;
    process
        .outputs()
        .for_each(|output| console::follow(NAME, output));
    let answers = layout.stop.wait_until(Duration::from_secs(5), || {
        servers::status_at(PORT).is_some()
    });
    let verb = if answers {
        "answers"
    } else {
        "does not answer"
    };
    say(NAME, format_args!("{SERVER} {verb} on {}", url()));
    Ok(Some(process))
}

/// The servers ask for the token that the environment names; the file says where it is, not what.
fn config(services: &[Service]) -> String {
    let token = match Token::named() {
        Token::None => String::new(),
        Token::Value(_) => "token = \"${MCP_TOKEN}\"\n".to_owned(),
        Token::File(_) => "token = \"file:${MCP_TOKEN_FILE}\"\n".to_owned(),
    };
    let mut text = "# Written anew by every `cargo xtask run-all`.\n".to_owned();
    for &service in services {
        let (name, url) = (service.name(), servers::url(service));
        let _ = write!(text, "\n[backends.{name}]\nurl = \"{url}\"\n{token}");
    }
    text
}
