//! A server for benchmarks with any number of tools and a large result.

use std::process::ExitCode;
use std::sync::Arc;

use mcp_core::server::{Server, ServerItems};
use mcp_core::tool::{Call, Effect, Tool, ToolError, Toolset};
use mcp_serve::{Product, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Items of one result, about 10 KB together, if the call does not say another number.
const ITEM_COUNT: u32 = 50;

#[derive(clap::Args)]
struct Options {
    /// Tools in the list.
    #[arg(long, default_value_t = 3)]
    tools: usize,
}

struct Stock {
    tools: usize,
}

/// Lists what is in stock, the newest first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListItems {
    /// Only items with this status.
    #[expect(dead_code, reason = "the schema is that of a tool in use")]
    status: Option<String>,
    /// Maximum number of items.
    limit: Option<u32>,
}

/// The items in stock.
#[derive(Serialize, JsonSchema)]
struct Items {
    items: Vec<Item>,
}

#[derive(Serialize, JsonSchema)]
struct Item {
    id: u32,
    name: String,
    status: &'static str,
    tags: [&'static str; 3],
    created_at: &'static str,
    description: &'static str,
}

impl Tool for ListItems {
    const NAME: &'static str = "list_items";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Stock;
    type Output = Items;

    async fn call(self, _: &Stock, _: &Call) -> Result<Items, ToolError> {
        let item = |id| Item {
            id,
            name: format!("item number {id}"),
            status: "in stock",
            tags: ["blue", "heavy", "on sale"],
            created_at: "2026-07-28T12:00:00Z",
            description: "As described in the catalogue, with everything that belongs to it.",
        };
        Ok(Items {
            items: (0..self.limit.unwrap_or(ITEM_COUNT)).map(item).collect(),
        })
    }
}

impl Service for Stock {
    /// Publishes the same tool under several names.
    async fn run(self: Arc<Self>, server: Arc<Server>) {
        let mut tools = tools().bind(&self);
        let (first, tool) = tools[0].clone();
        tools.extend((1..self.tools).map(|number| {
            let mut copy = first.clone();
            copy.name = format!("{}_{number}", first.name);
            (copy, Arc::clone(&tool))
        }));
        server.publish(ServerItems {
            tools,
            ..ServerItems::default()
        });
    }
}

fn tools() -> Toolset<Stock> {
    Toolset::new().with::<ListItems>()
}

fn main() -> ExitCode {
    Product::with_service(
        "bench-server",
        env!("CARGO_PKG_VERSION"),
        "A server with many tools and a large result",
        |Options { tools }| Ok(Stock { tools }),
    )
    .port(3460)
    .tools(|_| tools())
    .run()
}
