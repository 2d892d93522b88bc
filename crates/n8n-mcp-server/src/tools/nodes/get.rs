//! `get_node`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use upstream::text::truncate;

use super::call_node_tool;
use super::types::{NodeProperty, parse};
use crate::service::N8n;

/// The most of a definition that is shown, in bytes; about 8,000 tokens.
const MAX_DEFINITION: usize = 32 * 1024;

/// The parameters of a node, as this n8n has it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetNode {
    /// From list_nodes, for example n8n-nodes-base.slack.
    r#type: String,
    /// Default: the newest.
    version: Option<String>,
    /// Of those that list_nodes shows; needed where there are any.
    resource: Option<String>,
    /// As for resource.
    operation: Option<String>,
    /// As for resource.
    mode: Option<String>,
    /// n8n's whole definition (TypeScript) instead of rows.
    #[serde(default)]
    full: bool,
}

/// A node.
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct NodeDescription {
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    properties: Vec<NodeProperty>,
    /// Types of credentials that it takes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    credentials: Vec<String>,
    /// Choose one of these and ask again: each has parameters of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    operations: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<String>,
}

impl Tool for GetNode {
    const NAME: &'static str = "get_node";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = NodeDescription;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<NodeDescription, ToolError> {
        let mut wanted = Map::new();
        wanted.insert("nodeId".into(), self.r#type.clone().into());
        for (name, value) in [
            ("version", &self.version),
            ("resource", &self.resource),
            ("operation", &self.operation),
            ("mode", &self.mode),
        ] {
            if let Some(value) = value {
                wanted.insert(name.into(), Value::from(value.as_str()));
            }
        }
        let text = call_node_tool(n8n, "get_node_types", &json!({ "nodeIds": [wanted] })).await?;
        let Some((_, errors)) = text.split_once("# Errors") else {
            return Ok(self.read(text));
        };
        let error = errors.trim().lines().next().unwrap_or_default();
        let operations = operations(error);
        if !operations.is_empty() {
            return Ok(NodeDescription {
                operations,
                ..self.bare()
            });
        }
        if error.contains("not found") {
            return Err(ToolError::not_found(format!(
                "This n8n has no node {:?}, or not in that version. list_nodes finds those that it \
                 has.",
                self.r#type
            )));
        }
        let reason = truncate(error, 500);
        Err(ToolError::invalid_argument(format!(
            "n8n does not describe this: {}",
            reason.trim_start_matches("Error: ")
        )))
    }
}

impl GetNode {
    fn read(self, text: String) -> NodeDescription {
        let read = parse(&text);
        let mut node = NodeDescription {
            version: read.version.clone(),
            ..self.bare()
        };
        if self.full || read.properties.is_empty() {
            let end = text.floor_char_boundary(MAX_DEFINITION);
            node.definition = Some(text[..end].to_owned());
        } else {
            node.properties = read.properties;
            node.credentials = read.credentials;
        }
        node
    }

    fn bare(&self) -> NodeDescription {
        NodeDescription {
            r#type: self.r#type.clone(),
            version: self.version.clone(),
            ..NodeDescription::default()
        }
    }
}

/// `Available resource (operations): channel (archive, close); file (get).`, as rows.
fn operations(error: &str) -> Vec<String> {
    let Some((_, listed)) = error.split_once("(operations): ") else {
        return Vec::new();
    };
    let rows = listed.trim_end_matches('.').split("; ");
    rows.map(|row| row.replacen(" (", ": ", 1).trim_end_matches(')').to_owned())
        .collect()
}
