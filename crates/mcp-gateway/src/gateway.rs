//! The gateway as a product of the workspace.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use mcp_core::tool::Toolset;

use crate::events::{Log, Place, Retention};
use crate::hub::Hub;
use crate::tools;

/// The gateway, as [`mcp_serve::run`] takes it.
pub struct Gateway;

/// What can be configured about the gateway beside what every server has.
#[derive(Args)]
#[group(skip)]
pub struct GatewayOptions {
    /// A backend: `NAME=COMMAND` starts one, `NAME=URL` reaches one. Several times for several.
    #[arg(
        long,
        env = "MCP_GATEWAY_BACKENDS",
        value_name = "NAME=COMMAND|URL",
        value_delimiter = ';'
    )]
    backend: Vec<String>,

    /// File of the event log.
    #[arg(long, env = "MCP_GATEWAY_EVENTS", value_name = "FILE")]
    events: Option<PathBuf>,
}

impl mcp_serve::Product for Gateway {
    const NAME: &'static str = "mcp-gateway";
    const DESCRIPTION: &'static str =
        "Every MCP server behind one endpoint: namespaced, supervised and on record";
    const PORT: u16 = 3455;
    type Options = GatewayOptions;
    type Service = Hub;

    fn tools() -> Toolset<Hub> {
        tools::own()
    }

    fn connect(options: GatewayOptions) -> anyhow::Result<Hub> {
        let mut config = crate::setup::Config {
            search_above: 200,
            ..Default::default()
        };
        for one in &options.backend {
            let (name, what) = one
                .split_once('=')
                .context("--backend wants NAME=COMMAND or NAME=URL")?;
            let key = crate::config::BackendKey::parse(name).map_err(anyhow::Error::msg)?;
            let is_url = what.starts_with("http://") || what.starts_with("https://");
            config.backends.insert(
                key,
                crate::setup::Backend {
                    argv: what.split_whitespace().map(str::to_owned).collect(),
                    url: is_url.then(|| what.to_owned()),
                    filter: Default::default(),
                    timeout: None,
                    start_timeout: Duration::from_secs(10),
                    disabled: false,
                },
            );
        }
        let place = options.events.map_or(Place::Memory, Place::File);
        let retention = Retention {
            age: Duration::from_secs(7 * 24 * 3600),
            rows: 1_000_000,
            bytes: 1 << 30,
        };
        let log = Log::start(place, retention).context("cannot start the event log")?;
        Ok(Hub::new(config, crate::setup::Source, Arc::new(log)))
    }
}
