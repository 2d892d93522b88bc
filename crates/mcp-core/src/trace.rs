//! Distributed tracing: the trace context of a request (W3C Trace Context and Baggage), the context of the code
//! that runs now, and the spans of requests.
//!
//! The program installs a [`Tracer`] if it exports spans. Without one a context is passed on as it came, so that
//! a trace stays whole, and nothing is recorded.

mod client_span;
mod context;
mod scope;
mod span;

use std::sync::OnceLock;
use std::time::Duration;

pub use client_span::ClientSpan;
pub use context::{TraceContext, TraceFields};
pub use scope::{current, within};
pub use span::{EndedSpan, HttpRequest, McpRequest, PeerAddress, SpanError, SpanWork};

/// Receives the spans of this process.
pub trait Tracer: Send + Sync {
    /// Time since 1970-01-01. Two calls measure a duration: the core itself reads no time.
    fn now(&self) -> Duration;

    /// Decides whether the spans of a trace are exported; `parent` is the span of the caller.
    fn samples(&self, trace_id: u128, parent: Option<&TraceContext>) -> bool;

    /// Takes over a span that has ended, sampled or not. Must not block.
    fn ended(&self, span: &EndedSpan<'_>);
}

static TRACER: OnceLock<Box<dyn Tracer>> = OnceLock::new();

/// Installs the tracer of this process. False if there is one already, which stays.
pub fn install(tracer: Box<dyn Tracer>) -> bool {
    TRACER.set(tracer).is_ok()
}

/// The tracer of this process.
pub fn tracer() -> Option<&'static dyn Tracer> {
    TRACER.get().map(|tracer| &**tracer)
}
