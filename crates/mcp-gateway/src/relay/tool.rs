//! A relayed tool: forwards calls to its backend and records each of them.

use std::sync::Arc;

use mcp_core::jsonrpc::{Members, quoted};
use mcp_core::tool::{
    ArgumentError, BoundTool, Call, Effect, ToolError, ToolErrorKind, ToolFuture, ToolResult,
    without_tool_call_id,
};
use serde_json::value::RawValue;

use super::Relay;
use super::client_request::ClientRequest;
use super::record::RequestRecord;
use super::request::RelayedRequest;
use crate::argument_types::{ArgumentTypes, KnownArguments};
use crate::backend::Backend;
use crate::events::FinishedRequest;

/// One tool of one backend.
pub(crate) struct RelayedTool {
    pub(crate) relay: Relay,
    pub(crate) backend: Arc<Backend>,
    /// Its name in the backend's list.
    pub(crate) item: Arc<str>,
    /// Its published name.
    pub(crate) published: Arc<str>,
    /// The arguments that its schema knows.
    pub(crate) known: KnownArguments,
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
        let cleaned = match self.known.takes("toolCallId") {
            true => None,
            false => without_tool_call_id(arguments),
        };
        let arguments = cleaned.as_deref().unwrap_or(arguments);
        let mut client = ClientRequest::new(call);
        client.params.set("name", &quoted(&self.item));
        client.params.set("arguments", arguments.get());
        let event = FinishedRequest {
            item: Arc::clone(&self.published),
            request_bytes: arguments.get().len(),
            arguments: Some(ArgumentTypes::new(arguments, &self.known)),
            ..FinishedRequest::default()
        };
        let record = RequestRecord::new(&self.relay.log, &self.backend, &client, event);
        Ok(Box::pin(self.run(client, record)))
    }
}

impl RelayedTool {
    async fn run(
        &self,
        client: ClientRequest<'_>,
        mut record: RequestRecord,
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
