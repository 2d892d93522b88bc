//! `tools/list` and `tools/call`, with typed top levels and raw JSON below.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Client, Error, Options};

/// The definition of a tool.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// The name to call it by.
    pub name: String,
    /// A description for the model.
    #[serde(default)]
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    #[serde(default)]
    pub input_schema: Option<Box<RawValue>>,
    /// The JSON Schema of its `structuredContent`.
    #[serde(default)]
    pub output_schema: Option<Box<RawValue>>,
    /// Hints about its effects, such as `readOnlyHint`.
    #[serde(default)]
    pub annotations: Option<Box<RawValue>>,
    /// The whole definition as the server wrote it.
    #[serde(skip)]
    pub raw: Box<RawValue>,
}

/// The result of a tool call. A tool that failed has one too: see [`CallToolResult::is_error`].
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolResult {
    /// The items for the model, in order.
    #[serde(default)]
    pub content: Vec<ContentItem>,
    /// The result as data.
    #[serde(default)]
    pub structured_content: Option<Box<RawValue>>,
    /// True if the tool failed; the content gives the reason.
    #[serde(default)]
    pub is_error: bool,
    /// Metadata for the client.
    #[serde(default, rename = "_meta")]
    pub meta: Option<Box<RawValue>>,
    /// The whole result as the server wrote it.
    #[serde(skip)]
    pub raw: Box<RawValue>,
}

/// One item of content.
#[derive(Clone, Debug)]
pub struct ContentItem {
    /// Its `type`: `text`, `image`, `audio`, `resource`, `resource_link` or something newer.
    pub kind: String,
    /// The text of a text item.
    pub text: Option<String>,
    /// The whole item as the server wrote it.
    pub raw: Box<RawValue>,
}

impl CallToolResult {
    /// The text items, joined by newlines.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|c| c.text.as_deref())
            .collect();
        texts.join("\n")
    }
}

impl<'de> Deserialize<'de> for ContentItem {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Known {
            r#type: String,
            #[serde(default)]
            text: Option<String>,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let known: Known = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        Ok(Self {
            kind: known.r#type,
            text: known.text,
            raw,
        })
    }
}

impl Client {
    /// All tools of the server; see [`Client::list`].
    ///
    /// # Errors
    /// The errors of [`Client::list`], and [`Error::Protocol`] for a tool without a name.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, Error> {
        let tools = self.list("tools/list", "tools").await?;
        let read = |raw: Box<RawValue>| {
            let tool: Tool = self.read("tools/list", raw.get())?;
            Ok(Tool { raw, ..tool })
        };
        tools.into_iter().map(read).collect()
    }

    /// Calls a tool; `arguments` must serialise to an object.
    ///
    /// # Errors
    /// The errors of [`Client::request`]. A tool that failed is not an error but a result.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: &(impl Serialize + Sync + ?Sized),
    ) -> Result<CallToolResult, Error> {
        self.call_tool_with(name, arguments, Options::default())
            .await
    }

    /// Calls a tool with options: its own timeout, or progress reports.
    ///
    /// # Errors
    /// The errors of [`Client::call_tool`].
    pub async fn call_tool_with(
        &self,
        name: &str,
        arguments: &(impl Serialize + Sync + ?Sized),
        options: Options,
    ) -> Result<CallToolResult, Error> {
        #[derive(Serialize)]
        struct Params<'a, A: ?Sized> {
            name: &'a str,
            arguments: &'a A,
        }
        let params = Params { name, arguments };
        let raw = self.request_with("tools/call", &params, options).await?;
        let result: CallToolResult = self.read("tools/call", raw.get())?;
        Ok(CallToolResult { raw, ..result })
    }
}
