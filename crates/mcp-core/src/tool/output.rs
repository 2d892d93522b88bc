//! What a tool returns, and how it becomes a `CallToolResult`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::schema;
use crate::jsonrpc::Json;

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
}

/// One item of unstructured content (specification, `ContentBlock`; seed 004 adds its own types).
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Base64.
        data: String,
        /// For example `image/png`.
        mime_type: String,
    },
    /// A sound (2025-03-26 and later).
    #[serde(rename_all = "camelCase")]
    Audio {
        /// Base64.
        data: String,
        /// For example `audio/wav`.
        mime_type: String,
    },
    /// A resource, embedded.
    Resource {
        /// `uri`, `mimeType` and `text` or `blob`.
        resource: Value,
    },
}

impl ToolResult {
    /// Plain text and nothing else.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Content(vec![Content::text(text)])
    }
}

impl Content {
    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// A picture; `mime_type` is for example `image/png`.
    pub fn image(bytes: &[u8], mime_type: &str) -> Self {
        Self::Image {
            data: STANDARD.encode(bytes),
            mime_type: mime_type.to_owned(),
        }
    }

    /// A sound; `mime_type` is for example `audio/wav`.
    pub fn audio(bytes: &[u8], mime_type: &str) -> Self {
        Self::Audio {
            data: STANDARD.encode(bytes),
            mime_type: mime_type.to_owned(),
        }
    }
}

impl<T: Serialize + JsonSchema + Send> Output for T {
    fn schema() -> Option<Value> {
        Some(schema::output::<T>())
    }

    fn into_result(self) -> serde_json::Result<ToolResult> {
        Json::of(&self).map(ToolResult::Structured)
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
