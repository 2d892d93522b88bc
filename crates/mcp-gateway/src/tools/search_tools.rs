//! `search_tools`: finds tools when the list of all tools is too long for a model.

use mcp_core::jsonrpc::Members;
use mcp_core::tool::{
    Bounded, Call, Content, Detail, Effect, ShortText, Tool, ToolDefinition, ToolError, ToolResult,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::gateway::Gateway;

/// Find tools by what they do. Call one with call_tool.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchTools {
    /// Words; a backend's name narrows it to that backend.
    query: ShortText<256>,
    /// Default 8.
    limit: Option<Bounded<1, 50>>,
}

impl Tool for SearchTools {
    const NAME: &'static str = "search_tools";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Gateway;
    type Output = ToolResult;

    async fn call(self, gateway: &Gateway, call: &Call) -> Result<ToolResult, ToolError> {
        let (catalog, limit) = (gateway.catalog(), self.limit.map_or(8, Bounded::get));
        let viewer = gateway.viewer(call);
        let is_allowed = |tool: &ToolDefinition| viewer.allows(tool);
        let gone = || ToolError::unavailable("This view was removed; there are no tools.");
        let scope = catalog.scope(viewer.view()).ok_or_else(gone)?;
        let found = scope.find(&catalog, self.query.into_inner()).await;
        let found = found.map_err(|error| {
            ToolError::upstream("The tools cannot be searched at the moment.").caused_by(error)
        })?;
        let allowed = found.into_iter().filter(|tool| is_allowed(tool));
        let found: Vec<&ToolDefinition> = allowed.take(limit as usize).collect();
        if found.is_empty() {
            let names = scope.backends_of(is_allowed).into_iter();
            let names: Vec<String> = names.map(ToString::to_string).collect();
            let count = scope.listed_tools().filter(|tool| is_allowed(tool)).count();
            return Ok(ToolResult::text(format!(
                "No tool matches; try other words. The {} tools belong to these backends: {}.",
                count,
                names.join(", ")
            )));
        }
        let tools: Vec<String> = found.into_iter().map(brief).collect();
        Ok(ToolResult::Content(vec![Content::text(format!(
            "[{}]",
            tools.join(",\n")
        ))]))
    }
}

/// The name, description and input schema of a tool.
fn brief(tool: &ToolDefinition) -> String {
    let full = tool.encode(Detail::Basic);
    let members = Members::read(&full);
    members.map_or(full, |members| members.encode())
}
