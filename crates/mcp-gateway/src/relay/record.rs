//! The event of a relayed request.

use std::sync::Arc;
use std::time::Instant;

use gateway_store::events::{Event, EventLog, FinishedRequest, Outcome, TraceId};
use mcp_core::jsonrpc::Members;
use mcp_core::metrics::OperationLabels;
use mcp_core::server::{DeniedBy, OriginalRequest};
use mcp_core::tool::{ToolError, ToolErrorKind};

use super::client_request::ClientRequest;
use crate::backend::Backend;
use crate::sanitise;

/// The event of one relayed request, which is recorded on drop, so that each request is recorded
/// exactly once.
pub(super) struct RequestRecord {
    log: Arc<EventLog>,
    backend: Arc<Backend>,
    /// Its labels in `/metrics`, with the kind of its error.
    labels: OperationLabels,
    trace: TraceId,
    started: Instant,
    /// When it was sent to the backend, for its metrics.
    sent: Option<Instant>,
    /// `None` if the call continues in the client's next request. A request that is dropped before
    /// its end was cancelled.
    event: Option<FinishedRequest>,
}

impl RequestRecord {
    /// Begins the record of a request that `event` describes.
    pub(super) fn new(
        log: &Arc<EventLog>,
        backend: &Arc<Backend>,
        labels: OperationLabels,
        client: &ClientRequest<'_>,
        event: FinishedRequest,
    ) -> Self {
        let origin = client.call.extension::<OriginalRequest>();
        if let Some(origin) = origin {
            origin.notes.take_over();
        }
        let principal = origin.and_then(|origin| origin.principal.as_ref());
        let now = Instant::now();
        Self {
            log: Arc::clone(log),
            backend: Arc::clone(backend),
            labels: OperationLabels {
                error: Some("cancelled"),
                ..labels
            },
            trace: TraceId::from(&client.trace),
            started: now,
            sent: Some(now),
            event: Some(FinishedRequest {
                principal: principal.map(|principal| Arc::clone(&principal.name)),
                view: origin.and_then(|origin| origin.view.clone()),
                permission: origin.and_then(|origin| origin.notes.permission().cloned()),
                sender: origin.map(|origin| origin.sender).unwrap_or_default(),
                backend: Some(backend.key.shared()),
                ..event
            }),
        }
    }

    /// Notes that the request is not sent yet: a refusal, or the wait for a person, is not the backend's.
    pub(super) fn not_sent(&mut self) {
        self.sent = None;
    }

    /// Notes that the request is denied: it is not sent.
    pub(super) fn denied(&mut self, by: DeniedBy) {
        if let Some(event) = &mut self.event {
            event.denied_by = Some(by);
        }
    }

    /// Notes that the request is sent now.
    pub(super) fn sent(&mut self) {
        self.sent = Some(Instant::now());
    }

    /// Notes the result.
    pub(super) fn finish(&mut self, result: &Result<Members, ToolError>) {
        if result.as_ref().is_err_and(ToolError::asks_client) {
            self.event = None;
        }
        let Some(event) = &mut self.event else { return };
        match result {
            Ok(result) => {
                let is_error = result.get("isError") == Some("true");
                self.labels.error = is_error.then_some("tool_error");
                event.outcome = if is_error {
                    Outcome::Failed
                } else {
                    Outcome::Ok
                };
                let size = |(name, json): (&str, &str)| name.len() + json.len() + 4;
                event.response_bytes = result.iter().map(size).sum();
                let mut values = result.iter().map(|(_, json)| json);
                event.has_hidden_characters = values.any(sanitise::has_hidden_characters);
            }
            Err(error) => {
                self.labels.error = Some(error.kind().as_str());
                event.outcome = match error.kind() {
                    _ if event.denied_by.is_some() => Outcome::Denied,
                    ToolErrorKind::Timeout => Outcome::TimedOut,
                    ToolErrorKind::Cancelled => Outcome::Cancelled,
                    _ => Outcome::Failed,
                };
                event.error_code = error.code().map(i64::from);
                event.response_bytes = error.message().len();
            }
        }
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let Some(mut event) = self.event.take() else {
            return;
        };
        let now = Instant::now();
        event.duration = now.duration_since(self.started);
        if let Some(sent) = self.sent {
            let took = now.duration_since(sent);
            self.backend.record_duration(self.labels.clone(), took);
            if event.method.is_none() {
                let is_ok = event.outcome == Outcome::Ok;
                self.backend.metrics.record(is_ok, took);
            }
        }
        self.log.record(Event::finished(self.trace, event));
    }
}
