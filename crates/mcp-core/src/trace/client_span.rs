//! The span of a request that this process sends.

use std::time::Duration;

use super::{
    EndedSpan, HttpRequest, PeerAddress, SpanError, SpanWork, TraceContext, Tracer, tracer,
};

/// A request that is being sent for another one. It is recorded when it is dropped, as cancelled unless its end was
/// noted.
pub struct ClientSpan<'a> {
    context: TraceContext,
    recording: Option<Recording<'a>>,
}

/// The facts that only a tracer needs.
struct Recording<'a> {
    work: SpanWork<'a>,
    tracer: &'static dyn Tracer,
    parent: u64,
    started: Duration,
    error: Option<SpanError>,
}

impl<'a> ClientSpan<'a> {
    /// Starts the span of a request in the context of the one for which it is sent. `work` describes it for a tracer.
    pub fn start(parent: &TraceContext, work: impl FnOnce() -> SpanWork<'a>) -> Self {
        let Some(tracer) = tracer() else {
            return Self {
                context: parent.clone(),
                recording: None,
            };
        };
        Self {
            context: parent.child(parent.is_sampled()),
            recording: Some(Recording {
                work: work(),
                tracer,
                parent: parent.span_id(),
                started: tracer.now(),
                error: Some(SpanError::Cancelled),
            }),
        }
    }

    /// Starts the span of a request of HTTP to the service of this server. Baggage does not leave this machine.
    pub fn http(parent: TraceContext, method: &'a str, peer: PeerAddress<'a>) -> Self {
        let parent = match peer.is_local() {
            true => parent,
            false => parent.without_baggage(),
        };
        let request = HttpRequest {
            method,
            peer,
            status: None,
        };
        Self::start(&parent, || SpanWork::Http(request))
    }

    /// The context to send with the request.
    pub fn context(&self) -> &TraceContext {
        &self.context
    }

    /// Ends the span of a request of HTTP, with the status of the response if there was one.
    pub fn end_http(mut self, status: Option<u16>) {
        let recording = self.recording.as_mut();
        if let Some(SpanWork::Http(request)) = recording.map(|recording| &mut recording.work) {
            request.status = status;
        }
        self.end(match status {
            None => Some(SpanError::NoAnswer),
            Some(status) => (status >= 400).then_some(SpanError::Status(status)),
        });
    }

    /// Ends the span.
    pub fn end(mut self, error: Option<SpanError>) {
        if let Some(recording) = &mut self.recording {
            recording.error = error;
        }
    }
}

impl Drop for ClientSpan<'_> {
    fn drop(&mut self) {
        let Some(recording) = &self.recording else {
            return;
        };
        recording.tracer.ended(&EndedSpan {
            context: &self.context,
            parent: Some(recording.parent),
            started: recording.started,
            took: recording.tracer.now().saturating_sub(recording.started),
            work: recording.work,
            error: recording.error,
        });
    }
}
