//! The span of a request that this server answers.

use tracing::Span;

use super::mcp_method::McpMethod;
use super::received::ReceivedRequest;
use super::reply::MessageReply;
use super::{RequestEnd, Server};
use crate::era::Era;
use crate::jsonrpc::string;
use crate::trace::{self, McpRequest, SpanError, TraceContext};

/// The span of one request, which ends when it is dropped: so does that of a request whose client has disconnected.
pub(super) struct RequestSpan {
    span: Span,
    end: RequestEnd,
}

impl RequestSpan {
    /// Begins the span of a request, and returns it with its context; `None` if this process has no tracer.
    pub(super) fn begin(
        server: &Server,
        received: ReceivedRequest<'_>,
        parent: Option<&TraceContext>,
    ) -> Option<(Self, TraceContext)> {
        let tracer = trace::tracer()?;
        let span = describe(server, received);
        let context = tracer.place(&span, parent, true);
        let end = RequestEnd::default();
        Some((Self { span, end }, context))
    }

    /// Notes the answer to the request.
    pub(super) fn answered(&mut self, reply: &MessageReply<'_>) {
        self.end = reply.end();
    }
}

/// Creates the span of a request. What a client sends as a name may be anything, so only the names of methods, tools and
/// prompts that exist are used.
fn describe(server: &Server, received: ReceivedRequest<'_>) -> Span {
    let ReceivedRequest {
        request,
        params,
        era,
        source,
        ..
    } = received;
    let name = &*request.method;
    let custom = || {
        let mut methods = server.features.methods.iter();
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
    let (is_tool, is_prompt) = (McpMethod::is_tool_call(name), name == "prompts/get");
    let item = params.name.filter(|_| is_tool || is_prompt);
    let Some(item) = item.and_then(|item| string(item.get())) else {
        return trace::answered(&request);
    };
    let catalog = server.catalog_of(caller);
    let item = match is_tool {
        true => catalog.tool(&item).map(|(tool, _)| &*tool.name),
        false => catalog.prompt(&item).map(|(prompt, _)| &*prompt.name),
    };
    trace::answered(&McpRequest { item, ..request })
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        let error = match self.end {
            RequestEnd::Done => return,
            RequestEnd::Failed(None) => SpanError::Tool,
            RequestEnd::Failed(Some(code)) => SpanError::Code(code.into()),
            RequestEnd::Cancelled => SpanError::Cancelled,
        };
        trace::failed(&self.span, error);
    }
}
