//! `mcp-gateway bridge`: a running server for hosts that only start programs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use mcp_core::tool::Toolset;
use mcp_serve::Product;

use crate::config::{Config, ConfigSource, Secret, Target};
use crate::gateway::Gateway;

/// The options of every server, of which the command has none: a call may take as long as any server allows, a message
/// may be long, and a host shows what goes wrong.
const SERVER: [&str; 9] = [
    "--stdio",
    "--toolsets",
    "all",
    "--call-timeout",
    "600",
    "--body-limit",
    "67108864",
    "--log",
    "warn",
];

/// Events that are kept in memory, which no tool shows.
const MAX_EVENTS: u64 = 1_000;

/// Serves the server at a URL over stdin and stdout.
///
/// It is a gateway with this server alone, of which the tools keep their names. Client and server may speak different
/// revisions. The bridge waits for a server that restarts, and shows the tools of a server that starts later once it has
/// started. The bridge ends with its stdin.
#[derive(Parser)]
pub(super) struct Bridge {
    /// URL of the server, such as http://127.0.0.1:3455/mcp.
    url: String,
    /// Variable with the bearer token [default: MCP_TOKEN, if it is set].
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,
    /// File with the bearer token; read again for every message.
    #[arg(long, value_name = "FILE", conflicts_with = "token_env")]
    token_file: Option<PathBuf>,
    /// File with the CA of the server, in PEM.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(bridge: Bridge) -> ExitCode {
    let product = Product::with_service(
        "mcp-gateway",
        env!("CARGO_PKG_VERSION"),
        "A running server for hosts that start programs",
        connect,
    );
    product.tools(|_| Toolset::new()).serve_with(bridge, SERVER)
}

/// Makes a gateway with this server alone, which keeps nothing.
fn connect(server: Bridge) -> anyhow::Result<Gateway> {
    let token = server.token()?;
    let backend = format!("server={}", server.url);
    let (mut config, source) = ConfigSource::open(None, vec![backend], Config::default(), None)?;
    config.retention.rows = MAX_EVENTS;
    for backend in config.backends.values_mut() {
        let Target::Http(remote) = &mut backend.target else {
            anyhow::bail!("the URL must begin with http:// or https://");
        };
        remote.token.clone_from(&token);
        remote.tls.ca.clone_from(&server.ca);
        backend.is_alone = true;
    }
    Gateway::open(config, source, None)
}

impl Bridge {
    fn token(&self) -> anyhow::Result<Option<Secret>> {
        if let Some(file) = &self.token_file {
            return Ok(Some(Secret::File(file.clone())));
        }
        let variable = self.token_env.as_deref().unwrap_or("MCP_TOKEN");
        let token = std::env::var(variable).unwrap_or_default();
        match token.trim() {
            "" if self.token_env.is_some() => {
                anyhow::bail!("--token-env: the variable {variable} is not set")
            }
            "" => Ok(None),
            token => Ok(Some(Secret::Text(token.to_owned()))),
        }
    }
}
