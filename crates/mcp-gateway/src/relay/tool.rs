//! A relayed tool: forwards calls to its backend and records each of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_core::jsonrpc::{Members, quoted};
use mcp_core::tool::{
    ArgumentError, BoundTool, Call, Effect, ToolError, ToolErrorKind, ToolFuture, ToolResult,
};
use serde_json::value::RawValue;

use super::Relay;
use super::client_request::ClientRequest;
use super::request::RelayedRequest;
use crate::argument_types::ArgumentTypes;
use crate::backend::Backend;
use crate::events::{Event, FinishedCall, Outcome, TraceId};
use crate::sanitise;

/// One tool of one backend.
pub(crate) struct RelayedTool {
    pub(crate) relay: Relay,
    pub(crate) backend: Arc<Backend>,
    /// Its name in the backend's list.
    pub(crate) item: Arc<str>,
    /// Its published name.
    pub(crate) published: Arc<str>,
    /// The effect by its annotations.
    pub(crate) effect: Effect,
    /// True if the configuration denies it.
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
        let text = format!(
            "{} is denied by the gateway's configuration.",
            self.published
        );
        ToolError::new(ToolErrorKind::Forbidden, text)
    }
}

/// The event of one call, which is recorded on drop, so that each call is recorded exactly once.
struct CallRecord<'a> {
    tool: &'a RelayedTool,
    trace: TraceId,
    started: Instant,
    /// `None` if the call continues in the client's next request. A call that is dropped before its
    /// end was cancelled.
    event: Option<FinishedCall>,
}

impl<'a> CallRecord<'a> {
    fn new(tool: &'a RelayedTool, client: &ClientRequest<'_>, arguments: &RawValue) -> Self {
        let event = FinishedCall {
            outcome: Outcome::Cancelled,
            principal: client.call.client().name.clone(),
            backend: Some(tool.backend.key.shared()),
            tool: Arc::clone(&tool.published),
            duration: Duration::ZERO,
            request_bytes: arguments.get().len(),
            response_bytes: 0,
            has_hidden_characters: false,
            arguments: ArgumentTypes::new(arguments),
            error_code: None,
        };
        Self {
            tool,
            trace: client.trace,
            started: Instant::now(),
            event: Some(event),
        }
    }

    fn finish(&mut self, result: &Result<Members, ToolError>) {
        if result.as_ref().is_err_and(ToolError::asks_client) {
            self.event = None;
        }
        let Some(event) = &mut self.event else { return };
        match result {
            Ok(result) => {
                let is_error = result.get("isError") == Some("true");
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
                event.outcome = match error.kind() {
                    ToolErrorKind::Forbidden if self.tool.is_denied => Outcome::Denied,
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

impl Drop for CallRecord<'_> {
    fn drop(&mut self) {
        let Some(mut event) = self.event.take() else {
            return;
        };
        event.duration = self.started.elapsed();
        let is_ok = event.outcome == Outcome::Ok;
        self.tool.backend.metrics.record(is_ok, event.duration);
        self.tool.relay.log.record(Event::call(self.trace, event));
    }
}
