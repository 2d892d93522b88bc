//! Encodes spans, with the attributes of the semantic conventions of MCP and HTTP.

use std::time::Duration;

use mcp_core::trace::{EndedSpan, HttpRequest, McpRequest, PeerAddress, SpanError, SpanWork};

use crate::attributes::{ATTRIBUTES, NAME, error_type};
use crate::known_requests::KnownRequests;
use crate::protobuf::Writer;

/// The field of a span in a `ScopeSpans`.
pub(crate) const IN_SCOPE: u32 = 2;
/// `SPAN_KIND_SERVER` …
const SERVER: u64 = 2;
/// … and `SPAN_KIND_CLIENT`.
const CLIENT: u64 = 3;
/// The flags of a span whose parent is in this process …
const LOCAL_PARENT: u32 = 0x100;
/// … or in another.
const REMOTE_PARENT: u32 = 0x300;
/// `STATUS_CODE_ERROR`.
const ERROR: u64 = 2;

/// Writes the fields of a span.
pub(crate) fn encode(span: &EndedSpan<'_>, known: &mut KnownRequests, writer: &mut Writer<'_>) {
    let context = span.context;
    writer.bytes(1, &context.trace_id().to_be_bytes());
    writer.bytes(2, &context.span_id().to_be_bytes());
    if let Some(state) = context.state() {
        writer.bytes(3, state.as_bytes());
    }
    if let Some(parent) = span.parent {
        writer.bytes(4, &parent.to_be_bytes());
    }
    let (kind, origin) = match span.work {
        SpanWork::Answered(_) => (SERVER, REMOTE_PARENT),
        SpanWork::Sent(..) | SpanWork::Http(_) => (CLIENT, LOCAL_PARENT),
    };
    writer.varint(6, kind);
    writer.fixed64(7, nanos(span.started));
    writer.fixed64(8, nanos(span.started + span.took));
    match &span.work {
        SpanWork::Answered(request) => mcp(request, span.error, known, writer),
        SpanWork::Sent(request, peer) => {
            mcp(request, span.error, known, writer);
            peer.iter().for_each(|peer| address(peer, writer));
        }
        SpanWork::Http(request) => http(request, span.error, writer),
    }
    if span.error.is_some() {
        writer.message(15, |status| status.varint(3, ERROR));
    }
    let origin = span.parent.map_or(0, |_| origin);
    writer.fixed32(16, u32::from(context.flags()) | origin);
}

fn mcp(
    request: &McpRequest<'_>,
    error: Option<SpanError>,
    known: &mut KnownRequests,
    writer: &mut Writer<'_>,
) {
    let fields = known.fields(request, error);
    writer.0.extend_from_slice(&fields.0);
    if let Some(session) = request.session {
        writer.attribute(ATTRIBUTES, "mcp.session.id", &format!("{session:016x}"));
    }
}

fn http(request: &HttpRequest<'_>, error: Option<SpanError>, writer: &mut Writer<'_>) {
    writer.bytes(NAME, request.method.as_bytes());
    writer.attribute(ATTRIBUTES, "http.request.method", request.method);
    if let Some(status) = request.status {
        let name = "http.response.status_code";
        writer.number_attribute(ATTRIBUTES, name, status.into());
    }
    if let Some(error) = error {
        error_type(error, |text| {
            writer.attribute(ATTRIBUTES, "error.type", text)
        });
    }
    address(&request.peer, writer);
}

fn address(peer: &PeerAddress<'_>, writer: &mut Writer<'_>) {
    writer.attribute(ATTRIBUTES, "server.address", peer.host);
    match peer.port {
        Some(port) => writer.number_attribute(ATTRIBUTES, "server.port", port.into()),
        None if peer.host.starts_with('/') => {
            writer.attribute(ATTRIBUTES, "network.transport", "unix");
        }
        None => {}
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
