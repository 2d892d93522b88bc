//! Encodes spans, with the attributes of the semantic conventions of MCP and HTTP.

use std::time::Duration;

use mcp_core::trace::{EndedSpan, HttpRequest, McpRequest, PeerAddress, SpanError, SpanWork};

use crate::attributes::{ATTRIBUTES, NAME, error_type};
use crate::known_requests::KnownRequests;
use crate::protobuf::Writer;

/// The number and the type of the field of a span in a `ScopeSpans`.
const IN_SCOPE: u8 = 2 << 3 | 2;
/// `SPAN_KIND_SERVER` …
const SERVER: u8 = 2;
/// … and `SPAN_KIND_CLIENT`.
const CLIENT: u8 = 3;
/// The flags of a span whose parent is in this process …
const LOCAL_PARENT: u32 = 0x100;
/// … or in another.
const REMOTE_PARENT: u32 = 0x300;
/// `STATUS_CODE_ERROR`.
const ERROR: u64 = 2;

/// The fields that each span has, without their values: ids, kind, times and flags.
const HEAD: [u8; 54] =
    *b"\x0a\x10................\x12\x08........\x30.\x39........\x41........\x85\x01....";

/// Appends a span as a field of a `ScopeSpans`.
pub(crate) fn append(span: &EndedSpan<'_>, known: &mut KnownRequests, spans: &mut Vec<u8>) {
    // Two bytes hold any length below 16 KiB, and what is written here has lower limits: so the span is encoded in place.
    let start = spans.len();
    spans.extend_from_slice(&[IN_SCOPE, 0, 0]);
    encode(span, known, &mut Writer(spans));
    let len = spans.len() - start - 3;
    debug_assert!(len < 1 << 14, "{len} bytes");
    let varint = (len & 0x7f) | 0x80 | (len >> 7) << 8;
    spans[start + 1..start + 3].copy_from_slice(&varint.to_le_bytes()[..2]);
}

fn encode(span: &EndedSpan<'_>, known: &mut KnownRequests, writer: &mut Writer<'_>) {
    writer.0.extend_from_slice(&head(span));
    if let Some(state) = span.context.state() {
        writer.bytes(3, state.as_bytes());
    }
    if let Some(parent) = span.parent {
        writer.bytes(4, &parent.to_be_bytes());
    }
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
}

/// The fields that each span has. Written one by one they take as long as all the rest.
fn head(span: &EndedSpan<'_>) -> [u8; HEAD.len()] {
    let context = span.context;
    let (kind, origin) = match span.work {
        SpanWork::Answered(_) => (SERVER, REMOTE_PARENT),
        SpanWork::Sent(..) | SpanWork::Http(_) => (CLIENT, LOCAL_PARENT),
    };
    let flags = u32::from(context.flags()) | span.parent.map_or(0, |_| origin);
    let mut head = HEAD;
    head[2..18].copy_from_slice(&context.trace_id().to_be_bytes());
    head[20..28].copy_from_slice(&context.span_id().to_be_bytes());
    head[29] = kind;
    head[31..39].copy_from_slice(&nanos(span.started).to_le_bytes());
    head[40..48].copy_from_slice(&nanos(span.started + span.took).to_le_bytes());
    head[50..].copy_from_slice(&flags.to_le_bytes());
    head
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
