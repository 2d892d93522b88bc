//! The gateway as a product of the workspace.

use std::sync::Arc;

use anyhow::Context as _;
use mcp_core::tool::Toolset;

use crate::config::Options;
use crate::events::Log;
use crate::hub::Hub;
use crate::tools;

/// The gateway, as [`mcp_serve::run`] takes it.
pub struct Gateway;

impl mcp_serve::Product for Gateway {
    const NAME: &'static str = "mcp-gateway";
    const DESCRIPTION: &'static str =
        "Every MCP server behind one endpoint: namespaced, supervised and on record";
    const PORT: u16 = 3455;
    type Options = Options;
    type Service = Hub;

    fn tools(_: &Options) -> Toolset<Hub> {
        tools::own()
    }

    fn connect(options: Options) -> anyhow::Result<Hub> {
        let (config, source) = options.load()?;
        let log = Log::start(config.events.clone(), config.retention.clone())
            .context("cannot start the event log")?;
        Ok(Hub::new(config, source, Arc::new(log)))
    }
}
