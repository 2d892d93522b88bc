//! Turns the outcome of a tool call into the result of its request.

use serde_json::json;

use super::outcome::{CallEnd, MethodResult, Outcome};
use super::relayed;
use crate::era::Era;
use crate::error::{Error, one_line};
use crate::jsonrpc::{Json, push_quoted};
use crate::revision::Revision;
use crate::tool::{ArgumentError, ClientCapabilities, Content, ToolDefinition, ToolResult};

/// Returns the result of a request whose tool has ended.
pub(super) fn conclude(
    era: Era,
    client: ClientCapabilities,
    end: CallEnd<ToolResult>,
) -> Result<Outcome, Error> {
    let has_text = !client.structured_only;
    match end {
        CallEnd::Done(ToolResult::Relayed(result)) => {
            Ok(relayed::tool(result, era, has_text).into())
        }
        CallEnd::Done(result) => Ok(render(&result, era, has_text)?.into()),
        CallEnd::NeedsInput(questions) => Ok(Outcome::NeedsInput(questions)),
        CallEnd::Failed(error) if error.is_rpc_error(era) => Err(error.into()),
        CallEnd::Failed(error) => Ok(failed(error.message()).into()),
    }
}

/// Returns the result of a request with invalid arguments.
pub(super) fn bad_arguments(name: &str, era: Era, bad: ArgumentError) -> Result<Outcome, Error> {
    // SEP-1303 (2025-11-25): the model can correct its arguments only if it sees the error.
    if era.knows(Revision::V2025_11_25) {
        let words = format!("Invalid arguments for {name}: {}", one_line(&bad));
        return Ok(failed(&words).into());
    }
    Err(Error::InvalidParams(bad))
}

/// Adds the schema of the invalid argument.
pub(super) fn with_schema(definition: &ToolDefinition, error: ArgumentError) -> ArgumentError {
    let property = definition.input_schema["properties"].get(&error.field);
    let schema = property.cloned().map(Box::new);
    ArgumentError { schema, ..error }
}

/// Encodes a `CallToolResult`. The text of a structured result is its JSON, escaped; without `has_text` it
/// is left out where the client gets the structure.
fn render(result: &ToolResult, era: Era, has_text: bool) -> Result<Json, Error> {
    let written = match result {
        ToolResult::Structured(json) => {
            let json = json.as_str();
            let is_known = era.knows(Revision::V2025_06_18);
            if is_known && !has_text {
                let result =
                    format!(r#"{{"content":[],"structuredContent":{json},"isError":false}}"#);
                return Ok(Json::Owned(result));
            }
            // A little more for the escapes.
            let mut result = String::with_capacity(96 + 2 * json.len() + json.len() / 4);
            result.push_str(r#"{"content":[{"type":"text","text":"#);
            push_quoted(&mut result, json);
            result.push_str("}]");
            if is_known {
                result.push_str(r#","structuredContent":"#);
                result.push_str(json);
            }
            result.push_str(r#","isError":false}"#);
            Ok(result)
        }
        ToolResult::Content(content) => {
            let content: Vec<Content> = content.iter().map(|item| item.for_era(era)).collect();
            serde_json::to_string(&content)
                .map(|content| format!(r#"{{"content":{content},"isError":false}}"#))
        }
        ToolResult::Relayed(members) => Ok(members.encode()),
    };
    written.map(Json::Owned).map_err(|error| {
        tracing::error!(%error, "a result could not be written");
        Error::Internal
    })
}

/// The result of a failed tool, with its message.
pub(super) fn failed(message: &str) -> MethodResult {
    let result = json!({"content": [Content::text(message)], "isError": true});
    MethodResult {
        is_error: true,
        ..MethodResult::from(Json::from(result))
    }
}
