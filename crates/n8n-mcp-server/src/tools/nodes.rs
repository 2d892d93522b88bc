//! The toolset `nodes`: the nodes that this n8n has, from its own MCP server. There is no
//! copy of n8n's nodes in this server: it returns only what n8n returns.

mod get;
mod list;

use mcp_core::tool::{ToolError, Toolset};
use serde_json::Value;
use upstream::text::first_line;

use crate::builtin_mcp::structured;
use crate::service::N8n;

pub(crate) fn nodes() -> Toolset<N8n> {
    Toolset::new()
        .with::<list::ListNodes>()
        .with::<get::GetNode>()
}

/// The text that a node tool of n8n's MCP server returns.
async fn call_node_tool(n8n: &N8n, tool: &str, arguments: &Value) -> Result<String, ToolError> {
    if !n8n.mcp.is_configured() {
        return Err(ToolError::unauthorized(
            "n8n describes its nodes through its MCP server only: enable it (n8n: Settings > MCP \
             access) and set N8N_MCP_TOKEN or N8N_MCP_TOKEN_FILE.",
        ));
    }
    let Some(result) = n8n.mcp.call(tool, arguments).await? else {
        return Err(ToolError::upstream(
            "The MCP server of this n8n cannot describe nodes. Update n8n, \
             or look at the node in n8n's editor.",
        ));
    };
    let text = result.text();
    if result.is_error {
        let reason = first_line(&text, 300);
        return Err(ToolError::invalid_argument(format!(
            "n8n does not accept this: {reason}"
        )));
    }
    let answer: Value = structured(&result).unwrap_or_default();
    let answer = answer["results"]
        .as_str()
        .or(answer["definitions"].as_str());
    Ok(answer.map_or(text, str::to_owned))
}
