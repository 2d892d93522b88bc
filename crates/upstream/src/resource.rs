//! Makes resources from tools, so that selection, size limits, redaction and access rules are in one
//! place.

use mcp_core::resource::ResourceContents;
use mcp_core::tool::{Call, Tool, ToolError};
use serde::Serialize;

/// Calls a read tool and returns its result as the JSON content of a resource.
///
/// # Errors
/// The errors of the tool.
pub async fn from_tool<T>(
    tool: T,
    service: &T::Service,
    call: &Call,
) -> Result<ResourceContents, ToolError>
where
    T: Tool<Output: Serialize>,
{
    let answer = tool.call(service, call).await?;
    let json = serde_json::to_string(&answer).map_err(|error| {
        ToolError::upstream("The result cannot be written as JSON.").caused_by(error)
    })?;
    Ok(ResourceContents::Text(json))
}
