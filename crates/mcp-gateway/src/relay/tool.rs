//! A relayed tool: forwards calls to its backend and records each of them.

use std::sync::Arc;

use gateway_approvals::approvals::GuardedCall;
use gateway_approvals::pins::HoldReason;
use gateway_store::events::FinishedRequest;
use gateway_store::events::KnownArguments;
use mcp_core::jsonrpc::Members;
use mcp_core::metrics::OperationLabels;
use mcp_core::server::DeniedBy;
use mcp_core::tool::{
    ArgumentError, BoundTool, Call, Effect, ToolError, ToolErrorKind, ToolFuture, ToolResult,
    without_tool_call_id,
};
use serde_json::value::RawValue;

use super::Relay;
use super::client_request::ClientRequest;
use super::record::RequestRecord;
use super::request::RelayedRequest;
use crate::backend::Backend;

/// One tool of one backend.
#[derive(Clone)]
pub(crate) struct RelayedTool {
    pub(crate) relay: Relay,
    pub(crate) backend: Arc<Backend>,
    /// Its name in the backend's list, as JSON.
    pub(crate) item: Arc<str>,
    /// Its published name.
    pub(crate) published: Arc<str>,
    /// The arguments that its schema knows.
    pub(crate) known: KnownArguments,
    /// The effect by its annotations.
    pub(crate) effect: Effect,
    /// The labels of its calls in `/metrics`.
    pub(crate) labels: OperationLabels,
    /// The reason why it cannot be called.
    pub(crate) withheld: Option<Withheld>,
}

/// Why a tool of a backend cannot be called.
#[derive(Clone)]
pub(crate) enum Withheld {
    /// The configuration denies it.
    Denied,
    /// Its definition is not approved.
    Held(HoldReason),
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
        let params = Arc::make_mut(&mut client.params);
        params.set("name", &self.item);
        params.set("arguments", arguments.get());
        let event = FinishedRequest {
            item: Arc::clone(&self.published),
            request_bytes: arguments.get().len(),
            arguments: Some(
                self.relay
                    .log
                    .arguments(&self.published, arguments, &self.known),
            ),
            ..FinishedRequest::default()
        };
        let labels = self.labels.clone();
        let mut record = RequestRecord::new(&self.relay.log, &self.backend, labels, &client, event);
        record.not_sent();
        Ok(self.run(client, record))
    }
}

impl RelayedTool {
    fn run<'a>(&'a self, client: ClientRequest<'a>, mut record: RequestRecord) -> ToolFuture<'a> {
        // A block, since the future of an `async fn` has its arguments twice.
        Box::pin(async move {
            let result = match &self.withheld {
                Some(reason) => {
                    record.denied(match reason {
                        Withheld::Denied => DeniedBy::Configuration,
                        Withheld::Held(_) => DeniedBy::Changed,
                    });
                    Err(self.refusal(reason))
                }
                None => self.guarded(client, &mut record).await,
            };
            record.finish(&result);
            result.map(ToolResult::Relayed)
        })
    }

    /// Forwards the call if no person has to be asked, or has agreed.
    async fn guarded(
        &self,
        client: ClientRequest<'_>,
        record: &mut RequestRecord,
    ) -> Result<Members, ToolError> {
        let guarded = GuardedCall {
            tool: &self.published,
            backend: self.backend.key.as_str(),
            effect: self.effect,
            arguments: client.params.get("arguments").unwrap_or("{}"),
            call: client.call,
        };
        let admitted = self.relay.approvals.admit(&guarded).await;
        let admitted = admitted.inspect_err(|error| {
            if error.kind() == ToolErrorKind::Forbidden {
                record.denied(DeniedBy::Person);
            }
        })?;
        record.sent();
        let result = self.forward(client, admitted.id()).await;
        if result.as_ref().is_err_and(ToolError::asks_client) {
            admitted.keep();
        }
        result
    }

    async fn forward(
        &self,
        client: ClientRequest<'_>,
        agreed: Option<String>,
    ) -> Result<Members, ToolError> {
        self.request(client, agreed).run().await
    }

    fn request<'a>(
        &'a self,
        client: ClientRequest<'a>,
        agreed: Option<String>,
    ) -> RelayedRequest<'a> {
        RelayedRequest {
            relay: &self.relay,
            backend: &self.backend,
            method: "tools/call",
            item: &self.published,
            may_repeat: matches!(self.effect, Effect::ReadOnly | Effect::Idempotent),
            client,
            agreed,
        }
    }

    fn refusal(&self, reason: &Withheld) -> ToolError {
        let Self {
            published, backend, ..
        } = self;
        let text = match reason {
            Withheld::Denied => format!("{published} is denied by the gateway's configuration."),
            Withheld::Held(reason) => format!(
                "{published} is held back: {reason}. Nothing was called. The operator of the gateway sees \
                 it with `mcp-gateway pins diff {}`, and approves it with `mcp-gateway pins approve`.",
                backend.key
            ),
        };
        ToolError::new(ToolErrorKind::Forbidden, text)
    }
}
