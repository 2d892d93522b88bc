//! The log: on stderr, since stdout is the protocol's.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts the log at `filter`, which has the syntax of `RUST_LOG` (`info`, `mcp_serve=debug`).
///
/// # Errors
/// When the filter cannot be read.
pub(crate) fn start(filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|error| anyhow::anyhow!("--log {filter:?} is not a log filter: {error}"))?;
    // Slow and broken clients are daily business of a server, not warnings of its operator.
    let filter = match "hyper=error".parse() {
        Ok(quiet) => filter.add_directive(quiet),
        Err(_) => filter,
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // It would tell of them on stderr, too, and panic where nobody reads that any more.
        .log_internal_errors(false)
        .init();
    Ok(())
}
