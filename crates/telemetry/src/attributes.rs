//! The name and the attributes of the span of a request of MCP.

use mcp_core::trace::{McpRequest, SpanError};

use crate::protobuf::Writer;

/// The field of the name in a span.
pub(crate) const NAME: u32 = 5;
/// The field of the attributes, in a span and in a data point.
pub(crate) const ATTRIBUTES: u32 = 9;
/// The method of a request that names an unknown one.
const OTHER: &str = "_OTHER";
/// Limit of a name, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// The fields of a request, encoded once for all that have the same: for each span that would take a tenth of the
/// work of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequestFields(pub(crate) Box<[u8]>);

impl RequestFields {
    pub(crate) fn new(request: &McpRequest<'_>, error: Option<SpanError>) -> Self {
        let mut fields = Vec::new();
        let mut writer = Writer(&mut fields);
        name(request, &mut writer);
        attributes(request, &mut writer);
        if let Some(error) = error {
            error_type(error, |text| {
                writer.attribute(ATTRIBUTES, "error.type", text)
            });
        }
        if let Some(SpanError::Code(code)) = error {
            let name = "rpc.response.status_code";
            writer.attribute(ATTRIBUTES, name, &code.to_string());
        }
        Self(fields.into())
    }
}

/// Writes the name of the span of a request.
fn name(request: &McpRequest<'_>, writer: &mut Writer<'_>) {
    let method = request.method.unwrap_or(OTHER);
    match request.item.map(short) {
        Some(item) => writer.concat(NAME, &[method.as_bytes(), b" ", item.as_bytes()]),
        None => writer.bytes(NAME, method.as_bytes()),
    }
}

fn attributes(request: &McpRequest<'_>, writer: &mut Writer<'_>) {
    let tag = ATTRIBUTES;
    let method = request.method.unwrap_or(OTHER);
    writer.attribute(tag, "mcp.method.name", method);
    if let Some(item) = request.item.map(short) {
        if method == "prompts/get" {
            writer.attribute(tag, "gen_ai.prompt.name", item);
        } else {
            writer.attribute(tag, "gen_ai.tool.name", item);
            writer.attribute(tag, "gen_ai.operation.name", "execute_tool");
        }
    }
    if let Some(revision) = request.revision {
        writer.attribute(tag, "mcp.protocol.version", revision);
    }
    if request.is_pipe {
        writer.attribute(tag, "network.transport", "pipe");
    } else {
        writer.attribute(tag, "network.transport", "tcp");
        writer.attribute(tag, "network.protocol.name", "http");
    }
}

/// Calls `write` with the value of `error.type`.
pub(crate) fn error_type(error: SpanError, write: impl FnOnce(&str)) {
    match error {
        SpanError::Tool => write("tool_error"),
        SpanError::Code(code) if is_known(code) => write(&code.to_string()),
        SpanError::Code(_) => write(OTHER),
        SpanError::Status(status) => write(&status.to_string()),
        SpanError::Timeout => write("timeout"),
        SpanError::Cancelled => write("cancelled"),
        SpanError::NoAnswer => write("no_answer"),
    }
}

/// True for the codes of JSON-RPC and of MCP. A backend may send any other, of which there are too many to tell apart.
fn is_known(code: i64) -> bool {
    matches!(
        code,
        -32_700 | -32_603..=-32_600 | -32_042 | -32_029 | -32_022..=-32_020 | -32_012..=-32_000
    )
}

/// Cuts a name of a tool, which another server may have given.
fn short(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME_BYTES)]
}
