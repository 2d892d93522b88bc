//! The log, on stderr: stdout belongs to the protocol.

use std::io::IsTerminal as _;

use mcp_core::trace::TARGET;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

use crate::Problem;

/// Starts the log with `filter`, which has the syntax of `RUST_LOG` (`info`, `mcp_serve=debug`), and the export of
/// spans, if there is one.
pub(crate) fn start(
    filter: &str,
    spans: Option<impl Layer<Registry> + Send + Sync>,
) -> anyhow::Result<()> {
    let mut filter = self::filter(filter)?;
    // Slow and broken clients are usual: no warning for the operator. The spans of requests are for the export alone.
    for quiet in ["hyper=error".to_owned(), format!("{TARGET}=off")] {
        if let Ok(quiet) = quiet.parse() {
            filter = filter.add_directive(quiet);
        }
    }
    let log = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // They would go to stderr, too, and panic once stderr is closed.
        .log_internal_errors(false)
        .with_filter(filter);
    tracing_subscriber::registry().with(spans).with(log).init();
    Ok(())
}

pub(crate) fn filter(filter: &str) -> anyhow::Result<EnvFilter> {
    let parsed = EnvFilter::builder().parse(filter);
    parsed.map_err(|error| {
        Problem::new(format!("--log {filter:?} is not a log filter: {error}")).into()
    })
}
