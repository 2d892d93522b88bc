//! The three methods of seed 001: translated in, translated out. Nothing else knows them.

use serde_json::{Value, json};

use super::Server;
use super::context::Context;
use super::outcome::{CallEnd, Outcome};
use crate::era::Era;
use crate::error::Error;
use crate::jsonrpc::{Json, Members};
use crate::tool::{Content, ToolError, ToolResult};

impl Server {
    /// `mcp.callTool`: the raw result object. There is no `isError`, so a tool that fails becomes a
    /// JSON-RPC error.
    pub(super) async fn seed_001_call_tool(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let (name, arguments) = context.params.named_call()?;
        let catalog = self.catalog();
        let Some(tool) = catalog.tools.get(&name) else {
            return Err(Error::Seed001ToolNotFound(name.into_owned()));
        };
        self.mode(&tool.0, context)?;
        let end = self.run(tool, arguments, context).await;
        match end.map_err(Error::InvalidParams)? {
            CallEnd::Done(ToolResult::Structured(json)) => Ok(json.into()),
            CallEnd::Done(ToolResult::Content(content)) => Ok(raw(content).into()),
            CallEnd::Done(ToolResult::Relayed(result)) => relayed_value(&result),
            CallEnd::NeedsInput(questions) => Ok(Outcome::NeedsInput(questions)),
            CallEnd::Failed(error) if error.is_rpc_error(Era::Unversioned) => Err(error.into()),
            CallEnd::Failed(error) => Err(Error::ToolFailed(error)),
        }
    }

    /// `mcp.getServerInfo`. `uptime` is in seconds, `average_response_time` in seconds per request;
    /// the counters leave out the request that asks for them.
    pub(super) fn seed_001_server_info(&self) -> Value {
        let metrics = self.health.metrics();
        let degraded = self.degraded();
        let mut info = json!({
            "name": self.identity.name,
            "version": self.identity.version,
            "description": self.identity.description,
            "status": if degraded.is_none() { "online" } else { "degraded" },
            "uptime": self.clock.uptime().as_secs(),
            "request_count": metrics.total_requests,
            "tools_count": self.catalog().tools.len(),
            "health_metrics": metrics,
        });
        if let Some(reason) = degraded {
            info["reason"] = json!(reason);
        }
        info
    }
}

/// The `CallToolResult` of another server, as the one value that it stands for.
fn relayed_value(result: &Members) -> Result<Outcome, Error> {
    let content = result.get("content").unwrap_or("[]");
    let texts: Vec<Value> = serde_json::from_str(content).unwrap_or_default();
    let text = match texts.as_slice() {
        [item] => item["text"].as_str(),
        _ => None,
    };
    if result.get("isError") == Some("true") {
        let words = text.unwrap_or("The tool failed.");
        return Err(Error::ToolFailed(ToolError::upstream(words)));
    }
    Ok(match (result.get("structuredContent"), text) {
        (Some(json), _) => Json::Owned(json.to_owned()).into(),
        (None, Some(text)) => json!(text).into(),
        (None, None) => Json::Owned(content.to_owned()).into(),
    })
}

/// Content made by hand, as the one value that it stands for where it stands for one.
fn raw(content: Vec<Content>) -> Value {
    match content.as_slice() {
        [Content::Text { text }] => json!(text),
        _ => json!(content),
    }
}
