//! The name and the attributes of a request of MCP, which its span and its duration share.

use mcp_core::trace::{McpRequest, SpanError};

use crate::protobuf::Writer;

/// The field of the name in a span …
pub(crate) const NAME: u32 = 5;
/// … and that of the attributes, in a span and in a data point.
pub(crate) const ATTRIBUTES: u32 = 9;
/// The method of a request that names an unknown one.
const OTHER: &str = "_OTHER";
/// Limit of a name, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// The fields of a request, encoded once for all that have the same: for each span that would take a tenth of the
/// work of a call.
#[derive(Clone, Default)]
pub(crate) struct RequestFields {
    name: Vec<u8>,
    pub(crate) attributes: Vec<u8>,
}

impl RequestFields {
    pub(crate) fn new(request: &McpRequest<'_>, error: Option<SpanError>) -> Self {
        let (mut name_field, mut fields) = (Vec::new(), Vec::new());
        name(request, &mut Writer(&mut name_field));
        let mut writer = Writer(&mut fields);
        attributes(request, &mut writer);
        if let Some(error) = error {
            error_type(error, |text| {
                writer.attribute(ATTRIBUTES, "error.type", text)
            });
        }
        Self {
            name: name_field,
            attributes: fields,
        }
    }

    /// The attributes of all requests that are one in the durations.
    pub(crate) fn for_others() -> Self {
        let mut attributes = Vec::new();
        Writer(&mut attributes).flag_attribute(ATTRIBUTES, "otel.metric.overflow");
        Self {
            name: Vec::new(),
            attributes,
        }
    }

    /// Writes the name and the attributes of a span.
    pub(crate) fn write(&self, writer: &mut Writer<'_>) {
        writer.0.extend_from_slice(&self.name);
        writer.0.extend_from_slice(&self.attributes);
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

/// Returns the error as `error.type` tells it apart.
pub(crate) fn told_apart(error: Option<SpanError>) -> Option<SpanError> {
    match error {
        Some(SpanError::Code(code)) if !is_known(code) => Some(SpanError::Code(0)),
        error => error,
    }
}

/// Cuts a name of a tool, which another server may have given.
fn short(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME_BYTES)]
}
