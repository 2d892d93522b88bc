//! The record of an ended span, which a call leaves to the thread that exports.

use std::time::Duration;

use mcp_core::trace::{
    EndedSpan, HttpRequest, McpRequest, PeerAddress, SpanError, SpanWork, TraceContext,
};

/// The method of every unknown request, by the conventions.
const OTHER: &str = "_OTHER";

/// An ended span with names of its own. To copy the names is all the work that a call has.
pub(crate) struct Record {
    context: TraceContext,
    parent: Option<u64>,
    started: Duration,
    took: Duration,
    work: Work,
    error: Option<SpanError>,
}

enum Work {
    Answered(Mcp),
    Sent(Mcp, Option<Peer>),
    Http {
        method: &'static str,
        peer: Peer,
        status: Option<u16>,
    },
}

struct Mcp {
    request: McpRequest<'static>,
    item: Option<Box<str>>,
}

struct Peer {
    host: Box<str>,
    port: Option<u16>,
}

impl From<&EndedSpan<'_>> for Record {
    fn from(span: &EndedSpan<'_>) -> Self {
        Self {
            context: span.context.clone(),
            parent: span.parent,
            started: span.started,
            took: span.took,
            work: match &span.work {
                SpanWork::Answered(request) => Work::Answered(request.into()),
                SpanWork::Sent(request, peer) => {
                    Work::Sent(request.into(), peer.as_ref().map(Peer::from))
                }
                SpanWork::Http(request) => Work::Http {
                    method: http_method(request.method),
                    peer: Peer::from(&request.peer),
                    status: request.status,
                },
            },
            error: span.error,
        }
    }
}

impl Record {
    /// The span again.
    pub(crate) fn span(&self) -> EndedSpan<'_> {
        EndedSpan {
            context: &self.context,
            parent: self.parent,
            started: self.started,
            took: self.took,
            work: match &self.work {
                Work::Answered(mcp) => SpanWork::Answered(mcp.request()),
                Work::Sent(mcp, peer) => {
                    SpanWork::Sent(mcp.request(), peer.as_ref().map(Peer::address))
                }
                Work::Http {
                    method,
                    peer,
                    status,
                } => SpanWork::Http(HttpRequest {
                    method,
                    peer: peer.address(),
                    status: *status,
                }),
            },
            error: self.error,
        }
    }
}

impl From<&McpRequest<'_>> for Mcp {
    fn from(request: &McpRequest<'_>) -> Self {
        Self {
            item: request.item.map(Box::from),
            request: McpRequest {
                item: None,
                ..*request
            },
        }
    }
}

impl Mcp {
    fn request(&self) -> McpRequest<'_> {
        McpRequest {
            item: self.item.as_deref(),
            ..self.request
        }
    }
}

impl From<&PeerAddress<'_>> for Peer {
    fn from(address: &PeerAddress<'_>) -> Self {
        Self {
            host: address.host.into(),
            port: address.port,
        }
    }
}

impl Peer {
    fn address(&self) -> PeerAddress<'_> {
        PeerAddress {
            host: &self.host,
            port: self.port,
        }
    }
}

fn http_method(name: &str) -> &'static str {
    let known = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
    ];
    known
        .into_iter()
        .find(|known| *known == name)
        .unwrap_or(OTHER)
}
