//! The span of a request that this server answers.

use std::time::Duration;

use super::mcp_method::McpMethod;
use super::params::Params;
use super::reply::MessageReply;
use super::source::Source;
use super::{RequestEnd, Server};
use crate::era::Era;
use crate::jsonrpc::{Request, string};
use crate::trace::{self, EndedSpan, McpRequest, SpanError, SpanWork, TraceContext, Tracer};

/// The span of one request, which ends when it is dropped: so does that of a request whose client has disconnected.
pub(super) struct RequestSpan<'a> {
    tracer: &'static dyn Tracer,
    server: &'a Server,
    request: &'a Request<'a>,
    params: &'a Params<'a>,
    era: Era,
    source: &'a Source<'a>,
    context: TraceContext,
    parent: Option<u64>,
    started: Duration,
    end: RequestEnd,
}

impl<'a> RequestSpan<'a> {
    /// Begins the span that `context` names; `None` if this process has no tracer.
    pub(super) fn new(
        server: &'a Server,
        request: &'a Request<'a>,
        params: &'a Params<'a>,
        era: Era,
        source: &'a Source<'a>,
        context: Option<&TraceContext>,
        parent: Option<&TraceContext>,
    ) -> Option<Self> {
        let tracer = trace::tracer()?;
        Some(Self {
            tracer,
            server,
            request,
            params,
            era,
            source,
            context: context?.clone(),
            parent: parent.map(TraceContext::span_id),
            started: tracer.now(),
            end: RequestEnd::default(),
        })
    }

    /// Notes the answer to the request.
    pub(super) fn answered(&mut self, reply: &MessageReply<'_>) {
        self.end = reply.end();
    }

    /// Calls `record` with the request. What a client sends as a name may be anything, so only the names of methods,
    /// tools and prompts that exist are used.
    fn describe(&self, record: impl FnOnce(McpRequest<'_>)) {
        let name = &*self.request.method;
        let custom = || {
            let mut methods = self.server.features.methods.iter();
            methods.find_map(|(known, _)| (*known == name).then_some(*known))
        };
        let caller = self.source.caller;
        let is_pipe = caller.address().is_none();
        let session = self.source.connection.filter(|_| !is_pipe);
        let request = McpRequest {
            method: McpMethod::known_name(name).or_else(custom),
            item: None,
            revision: (self.era != Era::Unversioned).then(|| self.era.revision()),
            session: session.map(|session| session.id()),
            is_pipe,
        };
        let (is_tool, is_prompt) = (McpMethod::is_tool_call(name), name == "prompts/get");
        let item = self.params.name.filter(|_| is_tool || is_prompt);
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
        let took = self.tracer.now().saturating_sub(self.started);
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
                started: self.started,
                took,
                work: SpanWork::Answered(request),
                error,
            });
        });
    }
}
