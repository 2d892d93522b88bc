//! The way to a backend, as it is configured.

use std::sync::Arc;

use mcp_client::{Client, ClientInfo, Command, Dialect, Endpoint, Error, Handler};
use serde_json::json;

use crate::config::BackendKey;
use crate::setup as config;

/// Starts or reaches the backend and finds out what it speaks. Within the time that the
/// configuration allows.
///
/// # Errors
/// Why it cannot be used, in words for people; they hold no secret.
pub(super) async fn connect(
    config: &config::Backend,
    key: &BackendKey,
    handler: Arc<dyn Handler>,
) -> Result<Client, String> {
    let who = ClientInfo::new("mcp-gateway", env!("CARGO_PKG_VERSION")).with_capabilities(json!({
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "roots": {},
    }));
    let client = open(config, handler, Dialect::Newest)?;
    let error = match Box::pin(client.connect(&who)).await {
        Ok(_) => return Ok(client),
        Err(error) => error,
    };
    client.close().await;
    // Some servers of the handshake era end at the sight of anything else.
    if config.is_child() && matches!(error, Error::Closed { .. }) {
        // Their handler was theirs alone.
        tracing::debug!(backend = %key, %error, "tried again with initialize first");
    }
    Err(error.to_string())
}

fn open(
    config: &config::Backend,
    handler: Arc<dyn Handler>,
    dialect: Dialect,
) -> Result<Client, String> {
    let builder = Client::builder()
        .connect_timeout(config.start_timeout)
        .dialect(dialect)
        .handler(handler);
    let words = |error: Error| error.to_string();
    match &config.url {
        Some(url) => builder
            .http(Endpoint::new(url).map_err(words)?)
            .map_err(words),
        None => {
            let (program, arguments) = config.argv.split_first().ok_or("no command")?;
            let mut command = Command::new(program).args(arguments);
            if let Ok(keeper) = std::env::current_exe() {
                command = command.keeper(keeper);
            }
            builder.stdio(command).map_err(words)
        }
    }
}
