//! The log, on stderr: stdout belongs to the protocol.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts the log with `filter`, which has the syntax of `RUST_LOG` (`info`, `mcp_serve=debug`).
///
/// # Errors
/// If the filter is invalid.
pub(crate) fn start(filter: &str) -> anyhow::Result<()> {
    let filter = self::filter(filter)?;
    // Slow and broken clients are usual: no warning for the operator.
    let filter = match "hyper=error".parse() {
        Ok(quiet) => filter.add_directive(quiet),
        Err(_) => filter,
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // They would go to stderr, too, and panic once stderr is closed.
        .log_internal_errors(false)
        .init();
    Ok(())
}

/// Parses a filter.
///
/// # Errors
/// If it is invalid.
pub(crate) fn filter(filter: &str) -> anyhow::Result<EnvFilter> {
    let parsed = EnvFilter::builder().parse(filter);
    parsed.map_err(|error| anyhow::anyhow!("--log {filter:?} is not a log filter: {error}"))
}
