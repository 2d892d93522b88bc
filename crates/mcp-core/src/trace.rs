//! Distributed tracing: the trace context of a request (W3C Trace Context and Baggage), the context of the code
//! that runs now, and the spans of requests.
//!
//! The program installs a [`Tracer`] if it exports spans. Without one a context is passed on as it came, so that
//! a trace stays whole, and no span is created.

mod context;
mod span;

use std::pin::Pin;
use std::sync::OnceLock;

use tracing::Span;

pub use context::{TraceContext, TraceFields};
pub use span::{ClientSpan, McpRequest, PeerAddress, SpanError, TARGET};
pub(crate) use span::{answered, failed};

/// Gives spans their place in a trace.
pub trait Tracer: Send + Sync {
    /// Makes `span`, which is new, a child of a span of another process (`is_remote`) or of this one; without a parent
    /// it begins a trace. Decides whether it is exported, and returns its ids and its flags.
    fn place(&self, span: &Span, parent: Option<&TraceContext>, is_remote: bool) -> TraceContext;
}

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// The context of the request for which this code runs; `None` outside of requests, and in requests without one.
pub fn current() -> Option<TraceContext> {
    CURRENT.try_with(TraceContext::clone).ok()
}

/// Runs `future` in this context, if there is one, and else in that around it. Other tasks that it spawns
/// do not inherit it.
pub async fn within<F: Future>(context: Option<TraceContext>, future: Pin<&mut F>) -> F::Output {
    match context {
        Some(context) => CURRENT.scope(context, future).await,
        None => future.await,
    }
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
