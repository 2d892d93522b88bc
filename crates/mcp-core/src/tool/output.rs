//! What a tool returns, and how it becomes a `CallToolResult`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Content, schema};
use crate::jsonrpc::{Json, Members};

/// What a tool may return.
///
/// Every `Serialize + JsonSchema` type is an output: its schema becomes the `outputSchema`, its
/// JSON the `structuredContent` and, from the same bytes, the text. Tools that return pictures,
/// sound or links build a [`ToolResult`] themselves.
pub trait Output: Send {
    /// The `outputSchema`; `None` for results without `structuredContent`.
    fn schema() -> Option<Value>;

    /// The result.
    ///
    /// # Errors
    /// When a `Serialize` implementation fails.
    fn into_result(self) -> serde_json::Result<ToolResult>;
}

/// The result of a call that did what was asked (specification, `CallToolResult`).
#[derive(Debug)]
pub enum ToolResult {
    /// One JSON value: sent as `structuredContent` and as text.
    Structured(Json),
    /// Content items made by hand.
    Content(Vec<Content>),
    /// A whole `CallToolResult`, as another server wrote it.
    Relayed(Members),
}

impl ToolResult {
    /// Plain text and nothing else.
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
