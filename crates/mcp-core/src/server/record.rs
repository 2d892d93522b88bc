//! The record of a request: its audit, its metrics and its span, which are all written when it ends.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tracing::Span;

use super::answer::{MessageReply, RequestEnd};
use super::audit::{AuditNotes, AuditedRequest};
use super::method::McpMethod;
use super::params::{MAX_URI, Params};
use super::{Caller, ClientName, IncomingFrame, Server};
use crate::era::Era;
use crate::jsonrpc::{Request, member, string};
use crate::meta::Meta;
use crate::metrics::OperationLabels;
use crate::tool::is_longer;
use crate::trace::{self, McpRequest, SpanError, TraceContext};

/// The record of one request, which is written when it is answered, and else when it is dropped: so is that of a request
/// whose client has disconnected.
pub(super) struct RequestRecord<'a> {
    server: &'a Server,
    pub(super) request: &'a Request<'a>,
    pub(super) params: &'a Params<'a>,
    pub(super) era: Era,
    pub(super) from: &'a IncomingFrame<'a>,
    /// The method, if its era has it.
    pub(super) method: McpMethod,
    /// The method of this name, in whatever era.
    named: McpMethod,
    /// The uptime of the server when it started.
    started: Duration,
    /// The name that the client gives itself, where requests are audited or relayed.
    pub(super) client: ClientName,
    /// Facts for the audit, where requests are audited or relayed.
    pub(super) notes: Option<Arc<AuditNotes>>,
    /// `None` if this process has no tracer.
    span: Option<Span>,
    /// The context of its span. `None` without a tracer, unless the client has sent one or the request may be relayed.
    pub(super) trace: Option<TraceContext>,
    /// The name of the tool that is called.
    tool: OnceLock<String>,
    /// The kind of the tool's error, which is not in every result.
    failed: OnceLock<&'static str>,
    /// True once it was answered.
    is_answered: AtomicBool,
}

impl<'a> RequestRecord<'a> {
    /// Begins the record of a request that starts now.
    pub(super) fn begin(
        server: &'a Server,
        request: &'a Request<'a>,
        params: &'a Params<'a>,
        era: Era,
        from: &'a IncomingFrame<'a>,
    ) -> Self {
        let meta = params.meta();
        let relays = server.features.relays;
        let is_recorded = relays || server.features.audit.is_some();
        let named = McpMethod::named(&request.method);
        let mut record = Self {
            server,
            request,
            params,
            era,
            from,
            method: server.method(named, era),
            named,
            started: server.uptime(),
            client: match is_recorded {
                true => client_name(&meta, from),
                false => ClientName::default(),
            },
            notes: is_recorded.then(Arc::default),
            span: None,
            trace: None,
            tool: OnceLock::new(),
            failed: OnceLock::new(),
            is_answered: AtomicBool::new(false),
        };
        let parent = meta.trace();
        let parent = parent.or_else(|| TraceContext::of_headers(from.headers?));
        if let Some(tracer) = trace::tracer() {
            let span = record.new_span();
            record.trace = Some(tracer.place(&span, parent.as_ref(), true));
            record.span = Some(span);
        } else if parent.is_some() || relays {
            // Only servers that relay need a trace that the client has not started.
            record.trace = Some(TraceContext::for_request(parent.as_ref()));
        }
        record
    }

    /// The client that has sent it.
    pub(super) fn caller(&self) -> &'a Caller {
        &self.from.caller
    }

    /// Notes the tool that is called, and the client that calls it.
    pub(super) fn calls(&self, tool: &str) {
        // A request calls one tool.
        let _ = self.tool.set(tool.to_owned());
        // A server that relays has an audit, which knows the clients.
        if !self.server.features.relays {
            let client = client_name(&self.params.meta(), self.from);
            self.server.note_client(client);
        }
    }

    /// Notes the error of the tool.
    pub(super) fn failed(&self, kind: &'static str) {
        // Only the first one counts.
        let _ = self.failed.set(kind);
    }

    /// Leaves the audit to the handler of the request.
    pub(super) fn leave_audit(&self) {
        if let Some(notes) = &self.notes {
            notes.take_over();
        }
    }

    /// Writes the record of the request, which has this reply.
    pub(super) fn answered(&self, reply: &MessageReply<'_>) {
        let end = reply.end();
        let text: &str = match &reply.response.outcome {
            Ok(result) => result.as_str(),
            Err(error) => &error.message,
        };
        let failure = match end {
            RequestEnd::Failed(None) => member(text, "content"),
            RequestEnd::Failed(Some(_)) => Some(text),
            RequestEnd::Done | RequestEnd::Cancelled => None,
        };
        self.is_answered.store(true, Ordering::Relaxed);
        let health = &self.server.health;
        health.record(reply.error.is_none(), self.took());
        self.write(end, reply.error, text.len(), failure);
    }

    /// Writes the record of a request with this end, the kind of its error, the bytes of its result, and the message of
    /// its error, or the content of a result that says that it has failed.
    fn write(
        &self,
        end: RequestEnd,
        error: Option<&'static str>,
        bytes: usize,
        failure: Option<&str>,
    ) {
        let kind = match end {
            RequestEnd::Failed(_) => self.failed.get().copied().or(error),
            RequestEnd::Done | RequestEnd::Cancelled => error,
        };
        self.audit(end, kind, bytes, failure);
        self.count(kind);
        self.end_span(end);
    }

    fn took(&self) -> Duration {
        self.server.uptime().saturating_sub(self.started)
    }

    fn audit(
        &self,
        end: RequestEnd,
        kind: Option<&'static str>,
        response_bytes: usize,
        failure: Option<&str>,
    ) {
        let (Some(audit), Some(notes)) = (&self.server.features.audit, &self.notes) else {
            return;
        };
        let method = self.named;
        if !method.uses_item() || notes.is_taken_over.load(Ordering::Relaxed) {
            return;
        }
        let caller = self.caller();
        // A request with a longer one is refused before any rule is asked.
        let is_short = |name: &Cow<'_, str>| !is_longer(name, MAX_URI);
        let mut item = self.item().filter(is_short);
        if let Some(name) = &mut item {
            let catalog = self.server.catalog_of(caller);
            // One that was refused before any rule was asked tells nothing of the item.
            if let RequestEnd::Failed(Some(_)) = end
                && kind.is_some_and(|kind| kind.ends_with("_not_found"))
                && let Some(denial) = catalog.denial(method, name)
            {
                let _ = notes.denial.set(denial);
            }
            let published = catalog.published(method, name);
            if *published != **name {
                *name = Cow::Owned(published.to_owned());
            }
        }
        let calls_tool = method.calls_tool();
        audit.ended(&AuditedRequest {
            method: &self.request.method,
            item,
            principal: caller.principal().map(|principal| &principal.name),
            view: caller.view.as_ref(),
            client: self.client.clone(),
            address: caller.address,
            trace: self.trace.as_ref(),
            target: notes.target.get(),
            denial: notes.denial.get(),
            permission: notes.permission.get(),
            took: self.took(),
            arguments: calls_tool.then(|| self.params.arguments().ok()).flatten(),
            params: self.params.text().unwrap_or_default(),
            response_bytes,
            end,
            kind,
            failure,
        });
    }

    /// The name or URI in the parameters.
    fn item(&self) -> Option<Cow<'_, str>> {
        let field = match self.named {
            McpMethod::ReadResource | McpMethod::Subscribe | McpMethod::Unsubscribe => {
                self.params.uri
            }
            McpMethod::UpdateTask | McpMethod::CancelTask => self.params.task_id,
            McpMethod::Complete => {
                let reference = member(self.params.text()?, "ref")?;
                let item = member(reference, "name").or_else(|| member(reference, "uri"));
                return string(item?);
            }
            _ => self.params.name,
        };
        string(field?.get())
    }

    fn count(&self, error: Option<&'static str>) {
        if self.method == McpMethod::Listen {
            // It lasts as long as its client listens.
            return;
        }
        let tool = self.tool.get();
        let tool = tool.map(|tool| self.server.labels.label(tool));
        let labels = OperationLabels {
            backend: None,
            method: match tool {
                // Also by its name in seed 001.
                Some(_) => McpMethod::CallTool.name(),
                None => self.method.name(),
            },
            tool,
            error,
        };
        self.server.durations.record(labels, self.took());
    }

    fn end_span(&self, end: RequestEnd) {
        let error = match end {
            RequestEnd::Done => return,
            RequestEnd::Failed(None) => SpanError::Tool,
            RequestEnd::Failed(Some(code)) => SpanError::Code(code.into()),
            RequestEnd::Cancelled => SpanError::Cancelled,
        };
        if let Some(span) = &self.span {
            trace::failed(span, error);
        }
    }

    /// Creates the span. What a client sends as a name may be anything, so only the names of methods, tools and prompts
    /// that exist are used.
    fn new_span(&self) -> Span {
        let custom = || {
            let mut methods = self.server.features.methods.iter();
            methods.find_map(|(known, _)| (*known == self.request.method).then_some(*known))
        };
        let caller = self.caller();
        let is_pipe = caller.address.is_none();
        let session = self.from.connection.as_ref().filter(|_| !is_pipe);
        let described = McpRequest {
            method: match self.named {
                McpMethod::Custom => custom(),
                known => Some(known.name()),
            },
            item: None,
            revision: (self.era != Era::Unversioned).then(|| self.era.revision()),
            session: session.map(|session| session.id()),
            is_pipe,
        };
        let (is_tool, is_prompt) = (self.named.calls_tool(), self.named == McpMethod::GetPrompt);
        let item = self.params.name.filter(|_| is_tool || is_prompt);
        let Some(item) = item.and_then(|item| string(item.get())) else {
            return trace::answered(&described);
        };
        let catalog = self.server.catalog_of(caller);
        let item = match is_tool {
            true => catalog.tool(&item).map(|(tool, _)| &*tool.name),
            false => catalog.prompt(&item).map(|(prompt, _)| &*prompt.name),
        };
        trace::answered(&McpRequest { item, ..described })
    }
}

/// The name of the client that has sent a request with this `_meta`.
fn client_name(meta: &Meta<'_>, from: &IncomingFrame<'_>) -> ClientName {
    // Newer clients say it in each request.
    let name = meta.client_info.and_then(|info| member(info.get(), "name"));
    let negotiated = || from.connection.as_ref()?.negotiated();
    match name.and_then(string) {
        Some(name) => ClientName::new(&name),
        None => negotiated().map(|found| found.client).unwrap_or_default(),
    }
}

impl Drop for RequestRecord<'_> {
    fn drop(&mut self) {
        if *self.is_answered.get_mut() {
            return;
        }
        let error = match std::thread::panicking() {
            true => "internal",
            false => "cancelled",
        };
        self.write(RequestEnd::Cancelled, Some(error), 0, None);
    }
}
