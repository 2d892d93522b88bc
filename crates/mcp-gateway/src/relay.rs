//! Forwards requests for a backend's tools, resources and prompts.
//!
//! * [`request`]: the client's request, parsed once, its request to the backend, and the record of its event.
//! * [`questions`]: the backend's messages and questions during a request, and requests that wait for an answer.

pub(crate) mod questions;
mod request;

use std::sync::Arc;

use gateway_access::CallCounts;
use gateway_approvals::approvals::{Approvals, GuardedCall};
use gateway_approvals::pins;
use gateway_store::events::{FinishedRequest, KnownArguments};
use mcp_core::completion::Completes;
use mcp_core::jsonrpc::{Json, Members, quoted, string};
use mcp_core::method::MethodFuture;
use mcp_core::metrics::OperationLabels;
use mcp_core::prompt::{BoundPrompt, PromptDefinition, PromptFuture, PromptOutput};
use mcp_core::resource::{BoundResource, ReadFuture, ResourceContents, ResourceDefinition};
use mcp_core::server::{DeniedBy, ExistenceCheck, OriginalRequest};
use mcp_core::tool::{
    ArgumentError, BoundTool, Call, Effect, ToolError, ToolErrorKind, ToolFuture, ToolResult,
    without_tool_call_id,
};
use serde_json::json;
use serde_json::value::RawValue;
use upstream::redact::redacted;

use self::questions::{Asker, SuspendedRequests};
use self::request::{ClientRequest, EventRecord, RelayedRequest};
use crate::backend::{Backend, ListedItem, Snapshot};
use crate::names::PublishedItem;
use crate::owners::{ResourceOwners, fits};

/// The state that all relayed items share.
#[derive(Clone)]
pub(crate) struct Relay {
    suspended: Arc<SuspendedRequests>,
    /// The questions of each backend to each client.
    questions: Arc<CallCounts>,
    pub(crate) approvals: Arc<Approvals>,
}

impl Relay {
    pub(crate) fn new(approvals: Arc<Approvals>) -> Self {
        Self {
            suspended: Arc::default(),
            questions: Arc::default(),
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
            let _ = origin.notes.target.set(self.backend.key.shared());
        }
        let mut record = (!is_audited).then(|| {
            let labels = self.backend.labels(method, None);
            EventRecord::new(&self.backend, labels, &client, event)
        });
        let request = RelayedRequest {
            relay: &self.relay,
            backend: &self.backend,
            method,
            item,
            may_repeat: true,
            asker: Asker::new(&self.relay, &self.backend, call),
            client,
            agreed: None,
        };
        let result = request.run().await;
        if let Some(record) = &mut record {
            record.finish(&result, call);
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
            Ok(Json::from(result.encode()))
        }))
    }
}

/// Encodes a result as one JSON value.
fn encoded(result: &Members) -> Result<Box<RawValue>, ToolError> {
    RawValue::from_string(result.encode()).map_err(|error| {
        ToolError::upstream("The message could not be written as JSON.").caused_by(error)
    })
}

/// One tool of one backend.
#[derive(Clone)]
pub(crate) struct RelayedTool {
    pub(crate) relay: Relay,
    pub(crate) backend: Arc<Backend>,
    /// The lists that it is from.
    pub(crate) listed: Arc<Snapshot>,
    /// Its name in the backend's list.
    pub(crate) id: Arc<str>,
    /// `id` as JSON.
    pub(crate) id_json: Arc<str>,
    /// Its published name.
    pub(crate) published: Arc<str>,
    /// The arguments that its schema knows.
    pub(crate) known: KnownArguments,
    /// The effect by its annotations.
    pub(crate) effect: Effect,
    /// Its description, for people.
    pub(crate) description: Arc<str>,
    /// The labels of its calls in `/metrics`.
    pub(crate) labels: OperationLabels,
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
        params.set("name", &self.id_json);
        params.set("arguments", arguments.get());
        let log = &self.backend.context.log;
        let event = FinishedRequest {
            item: Arc::clone(&self.published),
            request_bytes: arguments.get().len(),
            arguments: Some(log.arguments(&self.published, arguments, &self.known)),
            ..FinishedRequest::default()
        };
        let labels = self.labels.clone();
        let mut record = EventRecord::new(&self.backend, labels, &client, event);
        record.not_sent();
        Ok(Box::pin(async move {
            let result = match self.denial() {
                Some((by, text)) => {
                    record.denied(by);
                    Err(ToolError::forbidden(text))
                }
                None => self.guarded(client, &mut record).await,
            };
            record.finish(&result, call);
            result.map(ToolResult::Relayed)
        }))
    }
}

impl RelayedTool {
    /// Why it cannot be called now, whoever calls it: what has decided, and the text for the model.
    fn denial(&self) -> Option<(DeniedBy, String)> {
        let published = &self.published;
        if !self.backend.config.allows_tool(&self.id) {
            let text = format!("{published} is denied by the gateway's configuration.");
            return Some((DeniedBy::Configuration, text));
        }
        let reason = self.backend.held(&self.id)?;
        let text = self.backend.held_back(published, &reason);
        Some((DeniedBy::Changed, text))
    }

    /// Forwards the call if no person has to be asked, or has agreed.
    async fn guarded(
        &self,
        client: ClientRequest<'_>,
        record: &mut EventRecord,
    ) -> Result<Members, ToolError> {
        let guarded = GuardedCall {
            tool: &self.published,
            backend: self.backend.key.as_str(),
            effect: self.effect,
            description: &self.description,
            arguments: client.params.get("arguments").unwrap_or("{}"),
            call: client.call,
            withdrawn: &|| self.withdrawn(),
        };
        let admitted = self.relay.approvals.admit(&guarded).await;
        let admitted = admitted.inspect_err(|error| {
            if error.kind() == ToolErrorKind::Forbidden {
                record.denied(match self.withdrawn() {
                    Some(_) => DeniedBy::Changed,
                    None => DeniedBy::Person,
                });
            }
        })?;
        record.sent(admitted.approved_by());
        let request = RelayedRequest {
            relay: &self.relay,
            backend: &self.backend,
            method: "tools/call",
            item: &self.published,
            may_repeat: matches!(self.effect, Effect::ReadOnly | Effect::Idempotent),
            asker: Asker::new(&self.relay, &self.backend, client.call),
            client,
            agreed: admitted.id(),
        };
        let result = request.run().await;
        if result.as_ref().is_err_and(ToolError::asks_client) {
            admitted.keep();
        }
        result
    }

    /// The reason why a call for which people were asked cannot be made any more as they were shown it, with the next step.
    fn withdrawn(&self) -> Option<String> {
        let backend = &self.backend;
        if backend.is_removed() {
            return Some("its backend was removed or configured again; call it again".to_owned());
        }
        // Its configuration cannot deny it since then: with another one it is another backend.
        if let Some(reason) = backend.held(&self.id) {
            return Some(format!(
                "it was held back: {reason}; the operator approves it with `mcp-gateway pins approve`"
            ));
        }
        let now = backend.snapshot();
        // While its backend is down nothing is known of its tools, and the call fails.
        if Arc::ptr_eq(&now, &self.listed) || !backend.has_listed() {
            return None;
        }
        let Some(definition) = now.tool(&self.id) else {
            return Some("its backend has stopped listing it".to_owned());
        };
        let is_same = |shown: &RawValue| {
            shown.get() == definition.get() || pins::hash(shown) == pins::hash(definition)
        };
        let is_shown = self.listed.tool(&self.id).is_some_and(is_same);
        (!is_shown)
            .then(|| "its definition has changed; list the tools, and call it again".to_owned())
    }
}

/// One prompt of one backend.
struct RelayedPrompt(RelayedItem);

/// Returns the definition for the list, and the handler of its requests.
pub(crate) fn prompt(
    relay: &Relay,
    backend: &Arc<Backend>,
    published: &PublishedItem,
    item: &ListedItem,
) -> Option<(PromptDefinition, Arc<dyn BoundPrompt>)> {
    let members = Members::read(item.definition.get())?;
    let name = quoted(&published.name);
    let definition = PromptDefinition {
        name: published.name.to_string().into(),
        description: String::new(),
        arguments: Vec::new(),
        relayed: RawValue::from_string(members.encode_with("name", Some(&name))).ok(),
    };
    let item = RelayedItem {
        relay: relay.clone(),
        backend: Arc::clone(backend),
        id: Arc::clone(&published.item),
        published: Arc::clone(&published.name),
    };
    Some((definition, Arc::new(RelayedPrompt(item))))
}

impl BoundPrompt for RelayedPrompt {
    fn write<'a>(
        &'a self,
        _: &RawValue,
        call: &'a Call,
    ) -> Result<PromptFuture<'a>, ArgumentError> {
        Ok(Box::pin(async move {
            let (item, name) = (&self.0.published, quoted(&self.0.id));
            let parameter = ("name", name.as_str());
            let result = self.0.forward("prompts/get", item, parameter, call).await?;
            Ok(PromptOutput::Relayed(encoded(&result)?))
        }))
    }
}

impl Completes for RelayedPrompt {
    fn completion<'a>(&'a self, _: &RawValue, call: &'a Call) -> Option<MethodFuture<'a>> {
        let reference = json!({"type": "ref/prompt", "name": &*self.0.id});
        self.0.complete(reference.to_string(), call)
    }
}

/// One resource, or one template of resources, of one backend.
struct RelayedResource(RelayedItem, Arc<ResourceOwners>);

/// Returns the definition for the list, and the handler of its requests.
pub(crate) fn resource(
    relay: &Relay,
    backend: &Arc<Backend>,
    item: &ListedItem,
    owners: &Arc<ResourceOwners>,
) -> (ResourceDefinition, Arc<dyn BoundResource>) {
    let members = Members::read(item.definition.get()).unwrap_or_default();
    let text = |name: &str| string(members.get(name)?).map(|text| text.into_owned());
    let definition = ResourceDefinition {
        uri: item.id.clone().into(),
        name: text("name").unwrap_or_default().into(),
        description: text("description").unwrap_or_default(),
        mime_type: text("mimeType").unwrap_or_default().into(),
        relayed: Some(item.definition.clone()),
    };
    let id: Arc<str> = item.id.as_str().into();
    let item = RelayedItem {
        relay: relay.clone(),
        backend: Arc::clone(backend),
        published: Arc::clone(&id),
        id,
    };
    (
        definition,
        Arc::new(RelayedResource(item, Arc::clone(owners))),
    )
}

impl BoundResource for RelayedResource {
    fn read<'a>(&'a self, uri: &str, call: &'a Call) -> Option<ReadFuture<'a>> {
        // A deny pattern may match one resource of an allowed template.
        let is_denied = self.0.backend.config.filter.denies_uri(uri);
        let uri = uri.to_owned();
        let is_own = || self.1.owner(&uri) == Some(&self.0.backend.key);
        (!is_denied && fits(&self.0.id, &uri) && is_own()).then(|| -> ReadFuture<'a> {
            Box::pin(async move {
                let quoted = quoted(&uri);
                let parameter = ("uri", quoted.as_str());
                let result = self
                    .0
                    .forward("resources/read", &uri, parameter, call)
                    .await;
                Ok(ResourceContents::Relayed(encoded(
                    &result.map_err(missing)?,
                )?))
            })
        })
    }
}

impl Completes for RelayedResource {
    fn completion<'a>(&'a self, params: &RawValue, call: &'a Call) -> Option<MethodFuture<'a>> {
        let reference = Members::read(params.get())?.get("ref")?.to_owned();
        self.0.complete(reference, call)
    }
}

/// Converts both error codes for a missing resource (-32002 and -32602) to the same error.
fn missing(error: ToolError) -> ToolError {
    if error.code() == Some(-32002) {
        return ToolError::new(ToolErrorKind::NotFound, "There is no such resource.");
    }
    error
}
