//! The audit of requests: reports each use of a tool, a resource or a prompt when it has ended.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::denial::Denial;
use super::mcp_method::McpMethod;
use super::params::MAX_URI;
use super::received::ReceivedRequest;
use super::reply::{MessageReply, RequestEnd};
use super::{Sender, Server};
use crate::jsonrpc::string;
use crate::tool::is_longer;
use crate::trace::TraceContext;

/// Records who used what.
pub trait Audit: Send + Sync {
    /// Records a request that has ended. Must not block.
    fn ended(&self, request: &AuditedRequest<'_>);

    /// Records a request that was refused before it was read; `kind` is that of the error.
    fn refused(&self, caller: Option<&Arc<str>>, kind: &'static str);
}

/// A request that has ended.
#[derive(Debug)]
pub struct AuditedRequest<'a> {
    /// One of the methods of the specification or of seed 001.
    pub method: &'a str,
    /// The name or URI that the client sent, if it is readable. It may name nothing. A tool is named as the server
    /// does, whatever the view calls it.
    pub item: Option<Cow<'a, str>>,
    /// The name of the caller's principal, if it has one.
    pub caller: Option<&'a Arc<str>>,
    /// The name of the view that the caller uses; `None` for the server itself.
    pub view: Option<&'a Arc<str>>,
    /// The client and its address.
    pub sender: Sender,
    /// Its span, if it belongs to a trace.
    pub trace: Option<&'a TraceContext>,
    /// The part of the service that it concerned, as [`AuditNotes::set_target`] has set it.
    pub target: Option<&'a Arc<str>>,
    /// Why the caller may not use the item, as [`AuditNotes::set_denial`] has set it.
    pub denial: Option<&'a Denial>,
    /// The rule that allows the item, as [`AuditNotes::set_permission`] has set it.
    pub permission: Option<&'a Arc<str>>,
    /// From the request to its end.
    pub took: Duration,
    /// The arguments of a call of a tool.
    pub arguments: Option<&'a RawValue>,
    /// Bytes of its parameters.
    pub request_bytes: usize,
    /// Bytes of its result.
    pub response_bytes: usize,
    /// The end of it.
    pub end: RequestEnd,
}

/// Facts that the handler of a request adds to its audit.
#[derive(Debug, Default)]
pub struct AuditNotes {
    is_recorded: AtomicBool,
    target: OnceLock<Arc<str>>,
    denial: OnceLock<Denial>,
    permission: OnceLock<Arc<str>>,
}

impl AuditNotes {
    /// Takes over the record: the handler writes its own, with more details.
    pub fn take_over(&self) {
        self.is_recorded.store(true, Ordering::Relaxed);
    }

    /// Sets the reason why the caller may not use what it asked for, for the operator.
    pub fn set_denial(&self, denial: Denial) {
        let _ = self.denial.set(denial);
    }

    /// Sets the rule that allows the caller what it asked for, for the operator.
    pub fn set_permission(&self, rule: Arc<str>) {
        let _ = self.permission.set(rule);
    }

    /// The rule that [`AuditNotes::set_permission`] has set.
    pub fn permission(&self) -> Option<&Arc<str>> {
        self.permission.get()
    }

    /// Sets the part of the service that the request concerns, such as a backend.
    pub fn set_target(&self, target: Arc<str>) {
        // Only the first one counts.
        let _ = self.target.set(target);
    }
}

/// The record of one request, which is written when it is dropped: so is a request whose client has
/// disconnected.
pub(super) struct AuditRecord<'a> {
    audit: &'a dyn Audit,
    server: &'a Server,
    received: ReceivedRequest<'a>,
    sender: Sender,
    trace: Option<TraceContext>,
    method: McpMethod,
    /// From its start to its answer.
    took: Option<Duration>,
    notes: Arc<AuditNotes>,
    end: RequestEnd,
    response_bytes: usize,
}

impl<'a> AuditRecord<'a> {
    /// Begins a record; `None` if requests of this method are not recorded.
    pub(super) fn new(
        server: &'a Server,
        received: ReceivedRequest<'a>,
        sender: Sender,
        trace: Option<&TraceContext>,
        notes: &Arc<AuditNotes>,
    ) -> Option<Self> {
        let audit = server.features.audit.as_deref()?;
        let method = McpMethod::audited(&received.request.method)?;
        Some(Self {
            audit,
            server,
            received,
            sender,
            trace: trace.cloned(),
            method,
            took: None,
            notes: Arc::clone(notes),
            end: RequestEnd::default(),
            response_bytes: 0,
        })
    }

    /// Notes the answer to the request, and its duration.
    pub(super) fn answered(&mut self, reply: &MessageReply<'_>, took: Duration) {
        self.end = reply.end();
        self.took = Some(took);
        self.response_bytes = match &reply.response.outcome {
            Ok(result) => result.as_str().len(),
            Err(error) => error.message.len(),
        };
    }

    /// The name or URI in the parameters.
    fn item(&self) -> Option<Cow<'_, str>> {
        let field = match self.method {
            McpMethod::ReadResource | McpMethod::Subscribe | McpMethod::Unsubscribe => {
                self.received.params.uri
            }
            McpMethod::UpdateTask | McpMethod::CancelTask => self.received.params.task_id,
            McpMethod::Complete => {
                let params = self.received.params.text()?;
                let Completed { reference } = serde_json::from_str(params).ok()?;
                return reference.name.or(reference.uri).map(Cow::Owned);
            }
            _ => self.received.params.name,
        };
        string(field?.get())
    }
}

impl Drop for AuditRecord<'_> {
    fn drop(&mut self) {
        if self.notes.is_recorded.load(Ordering::Relaxed) {
            return;
        }
        let caller = &**self.received.source.caller;
        // A request with a longer one is refused before any rule is asked.
        let is_short = |name: &Cow<'_, str>| !is_longer(name, MAX_URI);
        let mut item = self.item().filter(is_short);
        if let Some(name) = &mut item {
            let catalog = self.server.catalog_of(caller);
            if let RequestEnd::Failed(Some(_)) = self.end
                && let Some(denial) = catalog.denial(self.method, name)
            {
                self.notes.set_denial(denial);
            }
            let published = catalog.published(self.method, name);
            if *published != **name {
                *name = Cow::Owned(published.to_owned());
            }
        }
        let took = || self.server.uptime().saturating_sub(self.received.started);
        self.audit.ended(&AuditedRequest {
            method: &self.received.request.method,
            item,
            caller: caller.principal().map(|principal| &principal.name),
            view: caller.view(),
            sender: self.sender,
            trace: self.trace.as_ref(),
            target: self.notes.target.get(),
            denial: self.notes.denial.get(),
            permission: self.notes.permission(),
            took: self.took.unwrap_or_else(took),
            arguments: self
                .method
                .calls_tool()
                .then(|| self.received.params.arguments().ok())
                .flatten(),
            request_bytes: self.received.params.text().map_or(0, str::len),
            response_bytes: self.response_bytes,
            end: self.end,
        });
    }
}

#[derive(Deserialize)]
struct Completed {
    #[serde(rename = "ref")]
    reference: Reference,
}

#[derive(Deserialize)]
struct Reference {
    name: Option<String>,
    uri: Option<String>,
}
