//! Results of tools.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema;
use crate::era::Era;
use crate::jsonrpc::{Json, Members};
use crate::revision::Revision;

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

/// One item of unstructured content (specification, `ContentBlock`; seed 004 adds its own types).
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// A resource that the client can read (2025-06-18 and later).
    ResourceLink {
        /// Its URI.
        uri: String,
        /// A short name.
        name: String,
    },
    /// A custom type, such as seed 004's `custom/chart` and `embed`: an object with a `type`. The
    /// revisions that allow no other types get it as text.
    #[serde(untagged)]
    Custom(Value),
}

impl Content {
    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// A picture; `mime_type` is for example `image/png`.
    pub fn image(bytes: &[u8], mime_type: &str) -> Self {
        let (data, mime_type) = (STANDARD.encode(bytes), mime_type.to_owned());
        Self::Image { data, mime_type }
    }

    /// A sound; `mime_type` is for example `audio/wav`.
    pub fn audio(bytes: &[u8], mime_type: &str) -> Self {
        let (data, mime_type) = (STANDARD.encode(bytes), mime_type.to_owned());
        Self::Audio { data, mime_type }
    }

    /// An item of a custom type.
    pub fn custom(kind: &str, mut members: Value) -> Self {
        members["type"] = json!(kind);
        Self::Custom(members)
    }

    /// The item for a client of `era`: types that the era lacks become text.
    pub(crate) fn for_era(&self, era: Era) -> Self {
        match self {
            Self::Audio { mime_type, data } if !era.knows(Revision::V2025_03_26) => Self::text(
                format!("[{mime_type}, {} characters of base64]", data.len()),
            ),
            Self::ResourceLink { uri, name } if !era.knows(Revision::V2025_06_18) => {
                Self::text(format!("{name}: {uri}"))
            }
            Self::Custom(item) if era.knows(Revision::V2025_06_18) => Self::text(item.to_string()),
            known => known.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_types_become_text() {
        let first = Era::Legacy(Revision::V2024_11_05);
        let latest = Era::Legacy(Revision::V2025_11_25);
        let text = |text: &str| json!({"type": "text", "text": text});
        let sound = Content::audio(b"abc", "audio/wav");
        let link = Content::ResourceLink {
            uri: "d://c".into(),
            name: "c".into(),
        };
        let chart = Content::custom("custom/chart", json!({"data": [1]}));
        let audio = json!({"type": "audio", "data": "YWJj", "mimeType": "audio/wav"});
        let linked = json!({"type": "resource_link", "uri": "d://c", "name": "c"});
        let charted = json!({"data": [1], "type": "custom/chart"});
        let base64 = text("[audio/wav, 4 characters of base64]");
        for (content, era, expected) in [
            (&sound, first, &base64),
            (&sound, latest, &audio),
            (&link, Era::Unversioned, &text("c: d://c")),
            (&link, Era::Modern, &linked),
            (&chart, Era::Unversioned, &charted),
            (&chart, latest, &text(&charted.to_string())),
        ] {
            assert_eq!(json!(content.for_era(era)), *expected);
        }
    }
}
