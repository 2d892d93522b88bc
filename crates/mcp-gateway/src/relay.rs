//! Forwards requests for a backend's tools, resources and prompts.
//!
//! * [`client_request`]: the client's request, parsed once.
//! * [`request`]: that request to the backend, with the questions that the backend asks meanwhile.
//! * [`call_handler`]: the backend's messages during a request.
//! * [`record`]: the event of a request.
//! * [`suspended`]: requests that wait for the client's next call with an answer.
//! * [`task`]: backends that answer with a task.
//! * [`tool`], [`resource`], [`prompt`]: the relayed items in the gateway's lists.

mod call_handler;
mod client_request;
pub(crate) mod prompt;
mod record;
mod request;
pub(crate) mod resource;
mod suspended;
mod task;
pub(crate) mod tool;

use std::sync::Arc;

use gateway_approvals::approvals::Approvals;
use gateway_store::events::{EventLog, FinishedRequest};
use mcp_core::jsonrpc::{Json, Members};
use mcp_core::method::MethodFuture;
use mcp_core::server::{ExistenceCheck, OriginalRequest};
use mcp_core::tool::{Call, ToolError};
use serde_json::value::RawValue;
use upstream::redact::redacted;

use self::client_request::ClientRequest;
use self::record::RequestRecord;
use self::request::RelayedRequest;
use self::suspended::SuspendedRequests;
use crate::backend::Backend;

/// The state that all relayed items share.
#[derive(Clone)]
pub(crate) struct Relay {
    log: Arc<EventLog>,
    suspended: Arc<SuspendedRequests>,
    pub(crate) approvals: Arc<Approvals>,
}

impl Relay {
    pub(crate) fn new(log: Arc<EventLog>, approvals: Arc<Approvals>) -> Self {
        Self {
            log,
            suspended: Arc::default(),
            approvals,
        }
    }
}

/// The common part of a relayed prompt and a relayed resource.
struct RelayedItem {
    relay: Relay,
    backend: Arc<Backend>,
    /// Its name, URI or URI template in the backend's list.
    id: Arc<str>,
    /// Its published name; the same as `id` for a resource.
    published: Arc<str>,
}

impl RelayedItem {
    fn new(relay: &Relay, backend: &Arc<Backend>, id: Arc<str>, published: Arc<str>) -> Self {
        let (relay, backend) = (relay.clone(), Arc::clone(backend));
        Self {
            relay,
            backend,
            id,
            published,
        }
    }

    /// Forwards the client's request about `item`, with this parameter as JSON, and returns the result.
    async fn forward(
        &self,
        method: &'static str,
        item: &str,
        (name, json): (&str, &str),
        call: &Call,
    ) -> Result<Members, ToolError> {
        let check = call.extension::<ExistenceCheck>();
        let mut client = ClientRequest::new(call);
        Arc::make_mut(&mut client.params).set(name, json);
        let event = FinishedRequest {
            method: Some(check.map_or(method, |check| check.method).into()),
            item: redacted(item).into(),
            request_bytes: json.len(),
            ..FinishedRequest::default()
        };
        // A subscription is recorded by the audit, when it is accepted or refused.
        let is_audited = check.is_some_and(|check| check.method == "resources/subscribe");
        if is_audited && let Some(origin) = call.extension::<OriginalRequest>() {
            origin.notes.set_target(self.backend.key.shared());
        }
        let mut record = (!is_audited).then(|| {
            let labels = self.backend.labels(method, None);
            RequestRecord::new(&self.relay.log, &self.backend, labels, &client, event)
        });
        let request = RelayedRequest {
            relay: &self.relay,
            backend: &self.backend,
            method,
            item,
            may_repeat: true,
            client,
            agreed: None,
        };
        let result = request.run().await;
        if let Some(record) = &mut record {
            record.finish(&result);
        }
        let mut result = result?;
        result.remove("resultType");
        Ok(result)
    }

    /// Returns completions for an argument of the prompt or template in `reference`.
    fn complete<'a>(&'a self, reference: String, call: &'a Call) -> Option<MethodFuture<'a>> {
        Some(Box::pin(async move {
            let parameter = ("ref", reference.as_str());
            let result = self
                .forward("completion/complete", &self.published, parameter, call)
                .await?;
            Ok(Json::Owned(result.encode()))
        }))
    }
}

/// Encodes a result as one JSON value.
fn encoded(result: &Members) -> Result<Box<RawValue>, ToolError> {
    RawValue::from_string(result.encode()).map_err(|error| {
        ToolError::upstream("The message could not be written as JSON.").caused_by(error)
    })
}
