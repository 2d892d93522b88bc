//! The span of a request that this server answers.

use std::sync::Arc;
use std::time::Duration;

use super::mcp_method::McpMethod;
use super::operation::{MeasuredTool, Operation};
use super::received::ReceivedRequest;
use super::reply::MessageReply;
use super::{RequestEnd, Server};
use crate::era::Era;
use crate::jsonrpc::string;
use crate::trace::{self, EndedSpan, McpRequest, SpanError, SpanWork, TraceContext, Tracer};

/// The span of one request, which ends when it is dropped: so does that of a request whose client has disconnected.
pub(super) struct RequestSpan<'a> {
    tracer: &'static dyn Tracer,
    server: &'a Server,
    received: ReceivedRequest<'a>,
    context: TraceContext,
    parent: Option<u64>,
    end: RequestEnd,
    /// Set once it is answered.
    took: Option<Duration>,
    /// The tool that it has called.
    tool: Option<Arc<MeasuredTool>>,
}

impl<'a> RequestSpan<'a> {
    /// Begins the span that `context` names; `None` if this process has no tracer.
    pub(super) fn new(
        server: &'a Server,
        received: ReceivedRequest<'a>,
        context: Option<&TraceContext>,
        parent: Option<&TraceContext>,
    ) -> Option<Self> {
        let tracer = trace::tracer()?;
        Some(Self {
            tracer,
            server,
            received,
            context: context?.clone(),
            parent: parent.map(TraceContext::span_id),
            end: RequestEnd::default(),
            took: None,
            tool: None,
        })
    }

    /// Notes the answer to the request, its duration, and the tool.
    pub(super) fn answered(
        &mut self,
        reply: &MessageReply<'_>,
        took: Duration,
        operation: &Operation<'_>,
    ) {
        self.end = reply.end();
        self.took = Some(took);
        // A view may have another name for it.
        if self.received.source.caller.view().is_none() {
            self.tool = operation.tool().cloned();
        }
    }

    /// Calls `record` with the request. What a client sends as a name may be anything, so only the names of methods,
    /// tools and prompts that exist are used.
    fn describe(&self, record: impl FnOnce(McpRequest<'_>)) {
        let ReceivedRequest {
            request,
            params,
            era,
            source,
            ..
        } = self.received;
        let name = &*request.method;
        let custom = || {
            let mut methods = self.server.features.methods.iter();
            methods.find_map(|(known, _)| (*known == name).then_some(*known))
        };
        let caller = source.caller;
        let is_pipe = caller.address().is_none();
        let session = source.connection.filter(|_| !is_pipe);
        let request = McpRequest {
            method: McpMethod::known_name(name).or_else(custom),
            item: None,
            revision: (era != Era::Unversioned).then(|| era.revision()),
            session: session.map(|session| session.id()),
            is_pipe,
        };
        if let Some(tool) = &self.tool {
            let item = Some(&*tool.name);
            return record(McpRequest { item, ..request });
        }
        let (is_tool, is_prompt) = (McpMethod::is_tool_call(name), name == "prompts/get");
        let item = params.name.filter(|_| is_tool || is_prompt);
        let Some(item) = item.and_then(|item| string(item.get())) else {
            return record(request);
        };
        let catalog = self.server.catalog_of(caller);
        let item = match is_tool {
            true => catalog.tool(&item).map(|(tool, _)| &*tool.name),
            false => catalog.prompt(&item).map(|(prompt, _)| &*prompt.name),
        };
        record(McpRequest { item, ..request });
    }
}

impl Drop for RequestSpan<'_> {
    fn drop(&mut self) {
        let uptime = || self.server.uptime();
        let took = self
            .took
            .unwrap_or_else(|| uptime().saturating_sub(self.received.started));
        // The clock of the server, so that a request reads one clock, twice.
        let started_at = &self.server.started_at;
        let started_at = *started_at.get_or_init(|| self.tracer.now().saturating_sub(uptime()));
        let error = match self.end {
            RequestEnd::Done => None,
            RequestEnd::Failed(None) => Some(SpanError::Tool),
            RequestEnd::Failed(Some(code)) => Some(SpanError::Code(code.into())),
            RequestEnd::Cancelled => Some(SpanError::Cancelled),
        };
        self.describe(|request| {
            self.tracer.ended(&EndedSpan {
                context: &self.context,
                parent: self.parent,
                started: started_at + self.received.started,
                took,
                work: SpanWork::Answered(request),
                error,
            });
        });
    }
}
