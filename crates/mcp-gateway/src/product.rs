//! The gateway server as a product of `mcp-serve`.

use std::process::ExitCode;
use std::sync::Arc;

use gateway_store::events::StoreLocation;
use mcp_core::suggestion::suggestion;
use mcp_serve::{Configuration, Problem, Product};
use serde_json::{Map, json};

use crate::backend;
use crate::commands;
use crate::config::{self, Config, ConfigSource, Options};
use crate::gateway::Gateway;
use crate::instructions;
use crate::tools;

/// The options of the gateway, and of its client over stdio.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct GatewayOptions {
    #[command(flatten)]
    gateway: Options,
    /// View of the client over stdio: a table [views.NAME] of the file.
    #[arg(
        long,
        env = "MCP_GATEWAY_VIEW",
        value_name = "NAME",
        hide_short_help = true
    )]
    view: Option<String>,
}

/// The `main` of the program. `Product::run` is generic: it is compiled here, once with all that it calls, and not
/// again in `main.rs`.
pub fn main() -> ExitCode {
    product().run()
}

/// The gateway server: its name, port, options and tools.
fn product() -> Product<Gateway, GatewayOptions> {
    // By it the gateway knows itself among its backends.
    let own = json!({"id": backend::own_id()});
    let product = Product::with_service(
        "mcp-gateway",
        env!("CARGO_PKG_VERSION"),
        "Every MCP server behind one endpoint: namespaced, supervised and logged",
        connect,
    )
    .instructions(instructions::OWN)
    .experimental(Map::from_iter([("mcp-gateway".to_owned(), own)]))
    .port(3455)
    .tools(|_| tools::own())
    .configuration(Configuration {
        problems,
        unused,
        connect: connect_for_doctor,
        shares_key: GatewayOptions::is_shared,
        schema: config::schema,
    });
    commands::add(product)
}

/// Every problem of the options and of the file with which the gateway does not start.
fn problems(options: &GatewayOptions) -> Vec<Problem> {
    let found = options.gateway.problems().into_iter();
    let mut found: Vec<_> = found
        .map(|error| Problem {
            place: match error.line {
                Some(line) => format!("{}:{line}", error.origin),
                None => error.origin,
            },
            field: error.field.join("."),
            text: error.problem,
        })
        .collect();
    if found.is_empty()
        && let Err(error) = options.load()
    {
        found.push(Problem::new(format!("{error:#}")));
    }
    found
}

/// The backends that cannot be used.
fn unused(options: &GatewayOptions) -> Vec<Problem> {
    let Ok((config, source, _)) = options.load() else {
        return Vec::new();
    };
    let unusable = config.disabled().filter(|(_, reason)| reason.is_fault());
    let unusable = unusable.map(|(key, reason)| Problem {
        place: source.place_of(reason),
        field: format!("backends.{key}"),
        text: format!(
            "is not used: {reason}. {}",
            reason.advice(key).unwrap_or_default()
        ),
    });
    unusable.collect()
}

/// Makes a gateway that keeps nothing.
fn connect_for_doctor(options: GatewayOptions) -> anyhow::Result<Gateway> {
    let (mut config, source, view) = options.load()?;
    config.events = StoreLocation::Memory;
    Gateway::open(config, source, view)
}

fn connect(options: GatewayOptions) -> anyhow::Result<Gateway> {
    let (config, source, view) = options.load()?;
    Gateway::open(config, source, view)
}

/// The configuration, its source, and the view of the client over stdio.
type Loaded = (Config, ConfigSource, Option<Arc<str>>);

impl GatewayOptions {
    /// Returns true if other gateways may serve the same clients: they have one database.
    fn is_shared(&self) -> bool {
        let is_shared = |(config, ..): Loaded| matches!(config.events, StoreLocation::Postgres(_));
        // Options that cannot be used are another problem.
        self.load().is_ok_and(is_shared)
    }

    fn load(&self) -> anyhow::Result<Loaded> {
        let (config, source) = self.gateway.clone().load()?;
        let name = self.view.as_ref().filter(|name| !name.is_empty());
        let view = name.and_then(|name| config.view(name));
        if let (Some(name), None) = (name, view) {
            let names = config.views.iter().map(|view| &*view.name);
            let hint = suggestion(name, names);
            anyhow::bail!("--view: there is no view {name:?}{hint}");
        }
        let view = view.map(|view| Arc::clone(&view.name));
        Ok((config, source, view))
    }
}
