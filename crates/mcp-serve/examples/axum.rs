//! An MCP server inside of an axum application, beside its other routes.
//!
//! Options come from the environment, as `MCP_TOKEN`.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::map_request;
use axum::routing::get;
use mcp_serve::mcp_core::tool::{Effect, ToolResult};
use mcp_serve::schemars::{self, JsonSchema};
use mcp_serve::{Product, anyhow};
use serde::Deserialize;
use tokio::net::TcpListener;

/// Adds two numbers.
#[derive(Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let add = async |Add { a, b }: Add| Ok(ToolResult::text(format!("{}", a + b)));
    let (mcp, running) = Product::new("axum-example", env!("CARGO_PKG_VERSION"), "Adds numbers")
        .function("add", Effect::ReadOnly, add)
        .mount(std::env::args_os().skip(1))
        .await?;
    let app = Router::new()
        .route(
            "/",
            get(async || "Not an MCP client? This page is for you."),
        )
        .merge(mcp.router())
        // Clients without a token are limited by their address.
        .layer(map_request(
            async |ConnectInfo(address): ConnectInfo<SocketAddr>, mut request: Request| {
                request.extensions_mut().insert(address);
                request
            },
        ))
        .into_make_service_with_connect_info::<SocketAddr>();
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    eprintln!("listens on http://{}/mcp", socket.local_addr()?);
    let stop = async move {
        let _ = tokio::signal::ctrl_c().await;
        mcp.close();
    };
    axum::serve(socket, app)
        .with_graceful_shutdown(stop)
        .await?;
    running.stop().await;
    Ok(())
}
