//! A tool of a backend, as the gateway offers it.

use std::sync::Arc;
use std::time::Instant;

use mcp_core::jsonrpc::{Members, quoted};
use mcp_core::tool::{
    ArgumentError, BoundTool, Call, Effect, ToolError, ToolErrorKind, ToolFuture, ToolResult,
};
use serde_json::value::RawValue;

use super::Relay;
use super::client_request::ClientRequest;
use super::request::RelayedRequest;
use crate::backend::Backend;
use crate::events::{self, Event, Outcome, TraceId};
use crate::sanitise;
use crate::shape::Shape;

/// One tool of one backend.
pub(crate) struct RelayedTool {
    pub(crate) relay: Relay,
    pub(crate) backend: Arc<Backend>,
    /// Its name at the backend.
    pub(crate) item: Arc<str>,
    /// Its name here.
    pub(crate) published: Arc<str>,
    /// What its annotations promise.
    pub(crate) effect: Effect,
    /// The configuration does not let clients call it.
    pub(crate) is_denied: bool,
}

impl BoundTool for RelayedTool {
    fn start<'a>(
        &'a self,
        arguments: &RawValue,
        call: &'a Call,
    ) -> Result<ToolFuture<'a>, ArgumentError> {
        let mut client = ClientRequest::new(call);
        client.params.set("name", &quoted(&self.item));
        client.params.set("arguments", arguments.get());
        let record = CallRecord::new(self, &client, arguments);
        Ok(Box::pin(self.run(client, record)))
    }
}

impl RelayedTool {
    async fn run(
        &self,
        client: ClientRequest<'_>,
        mut record: CallRecord<'_>,
    ) -> Result<ToolResult, ToolError> {
        let result = if self.is_denied {
            Err(self.denied())
        } else {
            self.forward(client).await
        };
        record.finish(&result);
        result.map(ToolResult::Relayed)
    }

    async fn forward(&self, client: ClientRequest<'_>) -> Result<Members, ToolError> {
        let request = RelayedRequest {
            relay: &self.relay,
            backend: &self.backend,
            method: "tools/call",
            item: &self.published,
            may_repeat: matches!(self.effect, Effect::ReadOnly | Effect::Idempotent),
            client,
        };
        request.run().await
    }

    fn denied(&self) -> ToolError {
        let words = format!(
            "{} is not allowed here: the gateway's configuration denies it.",
            self.published
        );
        ToolError::new(ToolErrorKind::Forbidden, words)
    }
}

/// The record of one call, which is written once, however the call ends.
struct CallRecord<'a> {
    tool: &'a RelayedTool,
    trace: TraceId,
    started: Instant,
    principal: Option<Arc<str>>,
    request_bytes: usize,
    arguments: Shape,
    /// The event to write; a call that is dropped before its end was cancelled.
    outcome: Option<Outcome>,
    response_bytes: usize,
    hides_something: bool,
    error_code: Option<i64>,
}

impl<'a> CallRecord<'a> {
    fn new(tool: &'a RelayedTool, client: &ClientRequest<'_>, arguments: &RawValue) -> Self {
        Self {
            tool,
            trace: client.trace,
            started: Instant::now(),
            principal: client.call.client().name.clone(),
            request_bytes: arguments.get().len(),
            arguments: Shape::of(arguments),
            outcome: Some(Outcome::Cancelled),
            response_bytes: 0,
            hides_something: false,
            error_code: None,
        }
    }

    fn finish(&mut self, result: &Result<Members, ToolError>) {
        match result {
            Ok(result) => {
                let is_error = result.get("isError") == Some("true");
                self.outcome = Some(if is_error {
                    Outcome::Failed
                } else {
                    Outcome::Ok
                });
                let size = |(name, json): (&str, &str)| name.len() + json.len() + 4;
                self.response_bytes = result.iter().map(size).sum();
                let mut values = result.iter().map(|(_, json)| json);
                self.hides_something = values.any(sanitise::hides_something);
            }
            // The call goes on with the client's next request, and ends there.
            Err(error) if error.asks_client() => self.outcome = None,
            Err(error) => {
                self.outcome = Some(match error.kind() {
                    ToolErrorKind::Forbidden if self.tool.is_denied => Outcome::Denied,
                    ToolErrorKind::Timeout => Outcome::TimedOut,
                    ToolErrorKind::Cancelled => Outcome::Cancelled,
                    _ => Outcome::Failed,
                });
                self.error_code = error.code().map(i64::from);
                self.response_bytes = error.message().len();
            }
        }
    }
}

impl Drop for CallRecord<'_> {
    fn drop(&mut self) {
        let Some(outcome) = self.outcome else { return };
        let duration = self.started.elapsed();
        let backend = &self.tool.backend;
        backend.metrics.record(outcome == Outcome::Ok, duration);
        let call = events::Call {
            outcome,
            principal: self.principal.take(),
            backend: Some(backend.key.shared()),
            tool: Arc::clone(&self.tool.published),
            duration,
            request_bytes: self.request_bytes,
            response_bytes: self.response_bytes,
            hides_something: self.hides_something,
            arguments: std::mem::replace(&mut self.arguments, Shape::none()),
            error_code: self.error_code,
        };
        self.tool.relay.log.record(Event::call(self.trace, call));
    }
}
