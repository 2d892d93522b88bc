//! Results of tools.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Content, schema};
use crate::jsonrpc::{Json, Members};

/// A type that a tool may return.
///
/// Every `Serialize + JsonSchema` type is an output: its schema becomes the `outputSchema`, its JSON
/// the `structuredContent` and the text. Tools that return pictures, sound or links build a
/// [`ToolResult`].
pub trait Output: Send {
    /// The `outputSchema`; `None` for results without `structuredContent`.
    fn schema() -> Option<Value>;

    /// The result.
    ///
    /// # Errors
    /// A `Serialize` implementation fails.
    fn into_result(self) -> serde_json::Result<ToolResult>;
}

/// The result of a successful call (specification, `CallToolResult`).
#[derive(Debug)]
pub enum ToolResult {
    /// One JSON value: sent as `structuredContent` and as text.
    Structured(Json),
    /// Content items made by hand.
    Content(Vec<Content>),
    /// The whole `CallToolResult` of another server, unchanged.
    Relayed(Members),
}

impl ToolResult {
    /// A result that is plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Content(vec![Content::text(text)])
    }
}

impl<T: Serialize + JsonSchema + Send> Output for T {
    fn schema() -> Option<Value> {
        Some(schema::output::<T>())
    }

    fn into_result(self) -> serde_json::Result<ToolResult> {
        Json::from_serializable(&self).map(ToolResult::Structured)
    }
}

impl Output for ToolResult {
    fn schema() -> Option<Value> {
        None
    }

    fn into_result(self) -> serde_json::Result<ToolResult> {
        Ok(self)
    }
}
