//! The three `mcp.*` methods of seed 001, which only this file knows, and the counters that one of them shows.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde_json::{Value, json};

use super::answer::Answer;
use super::context::RequestContext;
use super::{Caller, Server};
use crate::era::Era;
use crate::error::Error;
use crate::jsonrpc::{Json, Members};
use crate::tool::{Content, ToolError, ToolResult};

impl Server {
    /// `mcp.callTool`: the result of the tool without an envelope. There is no `isError`, so a failed
    /// tool becomes a JSON-RPC error.
    pub(super) async fn seed_001_call_tool(
        &self,
        context: &RequestContext<'_>,
    ) -> Result<Answer, Error> {
        let (name, arguments) = context.params.named_call()?;
        let catalog = self.catalog_of(context.caller());
        let Some(tool) = catalog.tool(&name) else {
            let why = catalog.why_missing(&name).map(Error::ToolFailed);
            return Err(why.unwrap_or_else(|| Error::ToolNotFound {
                name: name.into_owned(),
                available: catalog.tool_names(),
                is_internal: true,
            }));
        };
        context.record.calls(tool.0.original_name());
        let admitted = catalog.admit(&tool.0, arguments, &context.call);
        admitted.map_err(Error::ToolFailed)?;
        self.mode(&tool.0, context)?;
        let result = self.run(tool, arguments, context).await;
        // Nobody can be asked in this dialect.
        match result.map_err(Error::InvalidParams)? {
            Ok(ToolResult::Structured(json)) => Ok(json.into()),
            Ok(ToolResult::Content(content)) => Ok(content_value(&content).into()),
            Ok(ToolResult::Relayed(result)) => relayed_value(&result),
            Err(error) if error.is_rpc_error(Era::Unversioned) => Err(error.into()),
            Err(error) => Err(Error::ToolFailed(error)),
        }
    }

    /// `mcp.getServerInfo`. `uptime` is in seconds, `average_response_time` in seconds per request;
    /// the counters do not include the current request.
    pub(super) fn seed_001_server_info(&self, caller: &Caller) -> Value {
        let degraded = self.degraded();
        let catalog = self.catalog_of(caller);
        let mut info = json!({
            "name": self.identity.name,
            "version": self.identity.version,
            "description": self.identity.description,
            "status": if degraded.is_none() { "online" } else { "degraded" },
            "uptime": self.uptime().as_secs(),
            "request_count": self.health.requests(),
            "tools_count": catalog.tool_names().len(),
            "health_metrics": self.health.metrics(),
        });
        // It may name what this caller may not see.
        if let Some(reason) = degraded.filter(|_| catalog.is_open()) {
            info["reason"] = json!(reason);
        }
        info
    }
}

/// The value of another server's `CallToolResult`.
fn relayed_value(result: &Members) -> Result<Answer, Error> {
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
        (Some(json), _) => Json::from(json.to_owned()).into(),
        (None, Some(text)) => json!(text).into(),
        (None, None) => Json::from(content.to_owned()).into(),
    })
}

/// The value of content: the text of a single text item, otherwise the array.
fn content_value(content: &[Content]) -> Value {
    match content {
        [Content::Text { text }] => json!(text),
        _ => json!(content),
    }
}

/// Counts the answered requests of every dialect and transport.
#[derive(Debug, Default)]
pub(super) struct Health {
    successful: AtomicU64,
    failed: AtomicU64,
    microseconds: AtomicU64,
}

impl Health {
    /// Counts one answered request.
    pub(super) fn record(&self, succeeded: bool, took: Duration) {
        let counter = [&self.failed, &self.successful][usize::from(succeeded)];
        counter.fetch_add(1, Relaxed);
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(microseconds, Relaxed);
    }

    /// The requests that were answered, without the current one. Notifications do not count.
    pub(super) fn requests(&self) -> u64 {
        self.successful.load(Relaxed) + self.failed.load(Relaxed)
    }

    /// The counters now (seed 001, `health_metrics`). A request that was answered with a JSON-RPC error or an `isError`
    /// result has failed; the time is in seconds per request, over all of them.
    pub(super) fn metrics(&self) -> Value {
        let spent = Duration::from_micros(self.microseconds.load(Relaxed)).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "an average")]
        let average = spent / self.requests().max(1) as f64;
        json!({
            "total_requests": self.requests(),
            "successful_requests": self.successful.load(Relaxed),
            "failed_requests": self.failed.load(Relaxed),
            "average_response_time": average,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_covers_all_requests() {
        let health = Health::default();
        health.record(true, Duration::from_millis(100));
        health.record(false, Duration::from_millis(300));
        let expected = json!({"total_requests": 2, "successful_requests": 1, "failed_requests": 1,
            "average_response_time": 0.2});
        assert_eq!(health.metrics(), expected);
    }
}
