//! The span of a request that this process sends.

use tracing::Span;

use super::{HttpRequest, PeerAddress, SpanError, SpanWork, TraceContext, span, tracer};

/// A request that is being sent for another one. Its span ends when it is dropped, as cancelled unless its end was
/// noted.
pub struct ClientSpan {
    context: TraceContext,
    span: Span,
    has_ended: bool,
}

impl ClientSpan {
    /// Starts the span of a request in the context of the one for which it is sent. `work` describes it for a tracer.
    pub fn start<'a>(parent: &TraceContext, work: impl FnOnce() -> SpanWork<'a>) -> Self {
        let (context, span) = match tracer() {
            None => (parent.clone(), Span::none()),
            Some(tracer) => {
                let span = span::sent(&work());
                (tracer.place(&span, Some(parent), false), span)
            }
        };
        Self {
            context,
            span,
            has_ended: false,
        }
    }

    /// Starts the span of a request of HTTP to the service of this server. Baggage does not leave this machine.
    pub fn http(parent: TraceContext, method: &str, peer: PeerAddress<'_>) -> Self {
        let parent = match peer.is_local() {
            true => parent,
            false => parent.without_baggage(),
        };
        Self::start(&parent, || SpanWork::Http(HttpRequest { method, peer }))
    }

    /// The context to send with the request.
    pub fn context(&self) -> &TraceContext {
        &self.context
    }

    /// Ends the span of a request of HTTP, with the status of the response if there was one.
    pub fn end_http(self, status: Option<u16>) {
        if let Some(status) = status {
            self.span.record(span::STATUS, i64::from(status));
        }
        self.end(match status {
            None => Some(SpanError::NoAnswer),
            Some(status) => (status >= 400).then_some(SpanError::Status(status)),
        });
    }

    /// Ends the span.
    pub fn end(mut self, error: Option<SpanError>) {
        self.has_ended = true;
        if let Some(error) = error {
            span::failed(&self.span, error);
        }
    }
}

impl Drop for ClientSpan {
    fn drop(&mut self) {
        if !self.has_ended {
            span::failed(&self.span, SpanError::Cancelled);
        }
    }
}
