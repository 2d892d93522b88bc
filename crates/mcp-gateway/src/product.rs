//! The gateway as a product of the workspace.

use std::sync::Arc;

use anyhow::Context as _;
use mcp_core::tool::Toolset;

use crate::config::Options;
use crate::events::Log;
use crate::gateway::Gateway;
use crate::tools;

/// The product, as [`mcp_serve::run`] takes it.
pub struct GatewayServer;

impl mcp_serve::Product for GatewayServer {
    const NAME: &'static str = "mcp-gateway";
    const DESCRIPTION: &'static str =
        "Every MCP server behind one endpoint: namespaced, supervised and on record";
    const PORT: u16 = 3455;
    type Options = Options;
    type Service = Gateway;

    fn tools(_: &Options) -> Toolset<Gateway> {
        tools::own()
    }

    fn connect(options: Options) -> anyhow::Result<Gateway> {
        let (config, source) = options.load()?;
        let log = Log::start(config.events.clone(), config.retention.clone())
            .context("cannot start the event log")?;
        Ok(Gateway::new(config, source, Arc::new(log)))
    }
}
