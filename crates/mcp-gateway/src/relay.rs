//! Passing on what clients ask of a backend's tools, resources and prompts.
//!
//! * [`client_request`]: the client's request, read once.
//! * [`request`]: that request at the backend, with the questions that it asks meanwhile.
//! * [`call_handler`]: what the backend says while it works on a request.
//! * [`suspended`]: requests that wait for a client to come back with an answer.
//! * [`task`]: backends that answer with a task.
//! * [`tool`], [`resource`], [`prompt`]: the items that the server offers in place of the backend's.

mod call_handler;
mod client_request;
pub(crate) mod prompt;
mod request;
pub(crate) mod resource;
mod suspended;
mod task;
pub(crate) mod tool;

use std::sync::Arc;

use mcp_core::jsonrpc::{Json, Members};
use mcp_core::method::MethodFuture;
use mcp_core::tool::{Call, ToolError};
use serde_json::value::RawValue;

use self::client_request::ClientRequest;
use self::request::RelayedRequest;
use self::suspended::SuspendedRequests;
use crate::backend::Backend;
use crate::events::Log;

/// The parts that all relayed items share.
#[derive(Clone)]
pub(crate) struct Relay {
    log: Arc<Log>,
    suspended: Arc<SuspendedRequests>,
}

impl Relay {
    /// A relay that records its calls in `log`.
    pub(crate) fn new(log: Arc<Log>) -> Self {
        Self {
            log,
            suspended: Arc::default(),
        }
    }
}

/// A prompt or a resource of a backend: what both do alike.
struct RelayedItem {
    relay: Relay,
    backend: Arc<Backend>,
    /// Its name, its URI or its URI template at the backend.
    id: Arc<str>,
}

impl RelayedItem {
    /// Sends the client's request about `item` with the parameter `name` as this JSON. Returns the
    /// result.
    async fn forward(
        &self,
        method: &'static str,
        item: &str,
        (name, json): (&str, &str),
        call: &Call,
    ) -> Result<Members, ToolError> {
        let mut client = ClientRequest::new(call);
        client.params.set(name, json);
        let request = RelayedRequest {
            relay: &self.relay,
            backend: &self.backend,
            method,
            item,
            may_repeat: true,
            client,
        };
        let mut result = request.run().await?;
        result.remove("resultType");
        Ok(result)
    }

    /// Completes an argument of what `reference` refers to.
    fn complete<'a>(&'a self, reference: String, call: &'a Call) -> Option<MethodFuture<'a>> {
        Some(Box::pin(async move {
            let parameter = ("ref", reference.as_str());
            let result = self
                .forward("completion/complete", &self.id, parameter, call)
                .await?;
            Ok(Json::Owned(result.encode()))
        }))
    }
}

/// A result in one piece.
fn whole(result: &Members) -> Result<Box<RawValue>, ToolError> {
    RawValue::from_string(result.encode()).map_err(|error| {
        ToolError::upstream("The message could not be written as JSON.").caused_by(error)
    })
}
