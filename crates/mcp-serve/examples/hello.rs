//! A complete MCP server with two tools, over HTTP or with `--stdio`.

use mcp_serve::Product;
use mcp_serve::mcp_core::tool::{Effect, ToolResult};
use mcp_serve::schemars::{self, JsonSchema};
use serde::Deserialize;

/// Adds two numbers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Add {
    a: f64,
    b: f64,
}

/// Greets a person.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Greet {
    name: String,
}

fn main() -> std::process::ExitCode {
    let add = async |Add { a, b }: Add| Ok(ToolResult::text(format!("{}", a + b)));
    let greet = async |Greet { name }: Greet| Ok(ToolResult::text(format!("Hello, {name}!")));
    Product::new("hello", "1.2.3", "Adds numbers and greets people")
        .function("add", Effect::ReadOnly, add)
        .function("greet", Effect::ReadOnly, greet)
        .run()
}
