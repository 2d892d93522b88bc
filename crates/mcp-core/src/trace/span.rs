//! Spans of requests, with the names and attributes of the semantic conventions of MCP and HTTP. They hold no argument
//! and no result.

use tracing::field::Empty;
use tracing::{Span, info_span};

use super::{TraceContext, tracer};
use crate::host::is_loopback;

/// The target of all spans that are to be exported, and of nothing else.
pub const TARGET: &str = "mcp_trace";
const STATUS: &str = "http.response.status_code";
/// The method of a request that names an unknown one.
const OTHER: &str = "_OTHER";
/// Limit of a name, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// A request of MCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct McpRequest<'a> {
    /// Its method, if it is a known one.
    pub method: Option<&'static str>,
    /// The tool that it calls or the prompt that it gets, if it is a known one.
    pub item: Option<&'a str>,
    /// The revision of the protocol, where the peers have agreed on one.
    pub revision: Option<&'static str>,
    /// A number for its session, from which the id of the session cannot be told.
    pub session: Option<u64>,
    /// True between processes on one machine, by stdio.
    pub is_pipe: bool,
}

/// The address of a server.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress<'a> {
    /// Name or IP address of the host, or the path of a socket.
    pub host: &'a str,
    /// The port; `None` for a socket.
    pub port: Option<u16>,
}

impl PeerAddress<'_> {
    /// True if the server is on this machine: a socket, a pipe or a loopback address.
    pub fn is_local(&self) -> bool {
        self.host.starts_with(['/', '\\']) || is_loopback(self.host)
    }

    /// The transport to a socket on this machine; `None` to a port.
    fn socket_transport(&self) -> Option<&'static str> {
        (self.port.is_none() && self.host.starts_with('/')).then_some("unix")
    }
}

/// The reason of a failure, of which there are few.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanError {
    /// The tool answered that it has failed.
    Tool,
    /// A JSON-RPC error with this code.
    Code(i64),
    /// A response of HTTP with this status.
    Status(u16),
    /// It was not answered in time.
    Timeout,
    /// The caller did not wait for the end.
    Cancelled,
    /// The peer could not be reached, or gave no answer that could be read.
    NoAnswer,
}

/// The span of a request that this process answers.
pub(crate) fn answered(request: &McpRequest<'_>) -> Span {
    mcp("server", request, None)
}

/// The span of a request of HTTP that this process sends. Its path is left out: it may hold values of arguments.
fn http(method: &str, peer: PeerAddress<'_>) -> Span {
    info_span!(
        target: TARGET,
        parent: None,
        "http",
        otel.name = method,
        otel.kind = "client",
        otel.status_code = Empty,
        http.request.method = method,
        http.response.status_code = Empty,
        error.type = Empty,
        server.address = peer.host,
        server.port = peer.port.map(i64::from),
        network.transport = peer.socket_transport(),
    )
}

fn mcp(kind: &str, request: &McpRequest<'_>, peer: Option<PeerAddress<'_>>) -> Span {
    let method = request.method.unwrap_or(OTHER);
    let item = request
        .item
        .map(|item| &item[..item.floor_char_boundary(MAX_NAME_BYTES)]);
    let (prompt, tool) = match method {
        "prompts/get" => (item, None),
        _ => (None, item),
    };
    let name = item.map(|item| format!("{method} {item}"));
    let transport = if request.is_pipe { "pipe" } else { "tcp" };
    let socket = peer.and_then(|peer| peer.socket_transport());
    info_span!(
        target: TARGET,
        parent: None,
        "mcp",
        otel.name = name.as_deref().unwrap_or(method),
        otel.kind = kind,
        otel.status_code = Empty,
        mcp.method.name = method,
        mcp.protocol.version = request.revision,
        mcp.session.id = request.session.map(|session| format!("{session:016x}")),
        gen_ai.prompt.name = prompt,
        gen_ai.tool.name = tool,
        gen_ai.operation.name = tool.map(|_| "execute_tool"),
        network.transport = socket.unwrap_or(transport),
        network.protocol.name = (!request.is_pipe).then_some("http"),
        error.type = Empty,
        rpc.response.status_code = Empty,
        server.address = peer.map(|peer| peer.host),
        server.port = peer.and_then(|peer| peer.port).map(i64::from),
    )
}

/// Notes the failure of the request of a span.
pub(crate) fn failed(span: &Span, error: SpanError) {
    span.record("otel.status_code", "error");
    match error {
        SpanError::Tool => span.record("error.type", "tool_error"),
        SpanError::Code(code) => {
            let text = code.to_string();
            span.record("error.type", if is_known(code) { &*text } else { OTHER });
            span.record("rpc.response.status_code", &*text)
        }
        SpanError::Status(status) => span.record("error.type", &*status.to_string()),
        SpanError::Timeout => span.record("error.type", "timeout"),
        SpanError::Cancelled => span.record("error.type", "cancelled"),
        SpanError::NoAnswer => span.record("error.type", "no_answer"),
    };
}

/// True for the codes of JSON-RPC and of MCP. A backend may send any other, of which there are too many to tell apart.
fn is_known(code: i64) -> bool {
    matches!(
        code,
        -32_700 | -32_603..=-32_600 | -32_042 | -32_029 | -32_022..=-32_020 | -32_012..=-32_000
    )
}

/// A request that is being sent for another one. Its span ends when it is dropped, as cancelled unless its end was
/// noted.
pub struct ClientSpan {
    context: TraceContext,
    span: Span,
    has_ended: bool,
}

impl ClientSpan {
    /// Starts the span in the context of the request for which this one is sent.
    fn start(parent: &TraceContext, span: impl FnOnce() -> Span) -> Self {
        let (context, span) = match tracer() {
            None => (parent.clone(), Span::none()),
            Some(tracer) => {
                let span = span();
                (tracer.place(&span, Some(parent), false), span)
            }
        };
        Self {
            context,
            span,
            has_ended: false,
        }
    }

    /// Starts the span of a request of MCP, to a server with this address unless it is a child. `request` describes it for a
    /// tracer.
    pub fn mcp<'a>(
        parent: &TraceContext,
        peer: Option<PeerAddress<'_>>,
        request: impl FnOnce() -> McpRequest<'a>,
    ) -> Self {
        Self::start(parent, || mcp("client", &request(), peer))
    }

    /// Starts the span of a request of HTTP to the service of this server. Baggage does not leave this machine.
    pub fn http(parent: TraceContext, method: &str, peer: PeerAddress<'_>) -> Self {
        let parent = match peer.is_local() {
            true => parent,
            false => parent.without_baggage(),
        };
        Self::start(&parent, || http(method, peer))
    }

    /// The context to send with the request.
    pub fn context(&self) -> &TraceContext {
        &self.context
    }

    /// Ends the span of a request of HTTP, with the status of the response if there was one.
    pub fn end_http(self, status: Option<u16>) {
        if let Some(status) = status {
            self.span.record(STATUS, i64::from(status));
        }
        self.end(match status {
            None => Some(SpanError::NoAnswer),
            Some(status) => (status >= 400).then_some(SpanError::Status(status)),
        });
    }

    /// Ends the span.
    pub fn end(mut self, error: Option<SpanError>) {
        self.has_ended = true;
        if let Some(error) = error {
            failed(&self.span, error);
        }
    }
}

impl Drop for ClientSpan {
    fn drop(&mut self) {
        if !self.has_ended {
            failed(&self.span, SpanError::Cancelled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_local() {
        for (host, expected) in [
            ("/run/docker.sock", true),
            (r"\\.\pipe\docker_engine", true),
            ("localhost", true),
            ("", false),
            ("192.168.0.1", false),
        ] {
            assert_eq!(
                PeerAddress { host, port: None }.is_local(),
                expected,
                "{host}"
            );
        }
    }
}
