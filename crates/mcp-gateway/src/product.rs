//! The gateway server as a product of `mcp-serve`.

use std::sync::Arc;

use anyhow::Context as _;
use gateway_access::suggestion;
use gateway_store::events::EventLog;
use gateway_store::state::StateStore;
use mcp_serve::Product;

use crate::commands;
use crate::config::{Config, Options};
use crate::gateway::Gateway;
use crate::instructions;
use crate::tools;

/// The options of the gateway, and of its client over stdio.
#[derive(clap::Args)]
#[group(skip)]
pub struct GatewayOptions {
    #[command(flatten)]
    gateway: Options,
    /// View of the client over stdio: a table [views.NAME] of the file.
    #[arg(long, env = "MCP_GATEWAY_VIEW", value_name = "NAME")]
    view: Option<String>,
}

/// Returns the gateway server: its name, port, options and tools.
pub fn product() -> Product<Gateway, GatewayOptions> {
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

fn connect(options: GatewayOptions) -> anyhow::Result<Gateway> {
    let (config, source) = options.gateway.load()?;
    let view = options.view.filter(|name| !name.is_empty());
    let view = view.map(|name| view_named(&name, &config)).transpose()?;
    let log = EventLog::start(config.events.clone(), config.retention.clone())
        .context("cannot start the event log")?;
    let state = StateStore::start(config.events.clone()).context("cannot start the state store")?;
    Ok(Gateway::new(config, source, Arc::new(log), state, view))
}

/// The view that `--view` names.
fn view_named(name: &str, config: &Config) -> anyhow::Result<Arc<str>> {
    match config.view(name) {
        Some(view) => Ok(Arc::clone(&view.name)),
        None => {
            let names = config.views.iter().map(|view| &*view.name);
            anyhow::bail!(
                "--view: there is no view {name:?}{}",
                suggestion(name, names)
            )
        }
    }
}
