//! The gateway server as a product of `mcp-serve`.

use std::sync::Arc;

use anyhow::Context as _;
use gateway_store::events::EventLog;
use gateway_store::state::StateStore;
use mcp_serve::Product;

use crate::commands;
use crate::config::Options;
use crate::gateway::Gateway;
use crate::instructions;
use crate::tools;

/// Returns the gateway server: its name, port, options and tools.
pub fn product() -> Product<Gateway, Options> {
    let product = Product::with_service(
        "mcp-gateway",
        env!("CARGO_PKG_VERSION"),
        "Every MCP server behind one endpoint: namespaced, supervised and logged",
        connect,
    )
    .instructions(instructions::OWN)
    .port(3455)
    .tools(|_| tools::own());
    commands::add(product)
}

fn connect(options: Options) -> anyhow::Result<Gateway> {
    let (config, source) = options.load()?;
    let log = EventLog::start(config.events.clone(), config.retention.clone())
        .context("cannot start the event log")?;
    let state = StateStore::start(config.events.clone()).context("cannot start the state store")?;
    Ok(Gateway::new(config, source, Arc::new(log), state))
}
