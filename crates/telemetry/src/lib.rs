//! OpenTelemetry: exports the spans and the durations of requests over OTLP/HTTP.
//!
//! The `OTEL_*` variables of the specification are all of its configuration ([`Settings`]). [`start`] installs a
//! tracer, which adds each span that ends to a bounded queue, and a thread that sends them: no call waits for a
//! collector. Spans for which the queue has no room are counted and dropped. Durations are those of `/metrics`
//! ([`Exporter::export_durations`]).
//!
//! Spans and attributes are those of the semantic conventions of MCP. Arguments, results, URIs and the ids of
//! sessions are in none of them.

mod attributes;
mod clock;
mod collector;
mod durations;
mod envelope;
mod exporter;
mod known_requests;
mod protobuf;
mod queue;
mod sampler;
mod settings;
mod span;
mod tracer;

use std::sync::Arc;

use envelope::Envelope;
pub use exporter::Exporter;
use queue::Queue;
pub use settings::Settings;
use tracer::SpanQueue;

/// Installs the tracer of this process and starts to export; `None` if nothing is to be exported, or the variables
/// cannot be used, which the log says.
pub fn start(settings: Settings) -> Option<Exporter> {
    for problem in &settings.problems {
        tracing::warn!("OpenTelemetry: {problem}");
    }
    if settings.traces.is_none() && settings.metrics.is_none() {
        return None;
    }
    let envelope = Arc::new(Envelope::new(&settings.resource));
    let queue = Arc::new(Queue::new(&settings, envelope.room()));
    let tracer = SpanQueue::new(Arc::clone(&queue), settings.sampler);
    // Without a place for spans there is no work for any.
    if settings.traces.is_some() && !mcp_core::trace::install(Box::new(tracer)) {
        return None;
    }
    let started = Exporter::start(queue, envelope, settings);
    let failed = |error| tracing::warn!("OpenTelemetry: nothing is exported: {error}");
    started.map_err(failed).ok()
}
