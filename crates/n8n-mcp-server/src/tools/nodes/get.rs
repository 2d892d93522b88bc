//! `get_node`

use upstream::text::truncate;

use super::call_node_tool;
use super::types::{NodeProperty, parse};
use crate::tools::prelude::*;

/// Bytes; about 8,000 tokens.
const MAX_DEFINITION: usize = 32 * 1024;

/// The parameters of a node, as this n8n has it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetNode {
    /// From list_nodes, for example n8n-nodes-base.slack.
    r#type: String,
    /// Default: the newest.
    version: Option<String>,
    /// From list_nodes; needed if it shows any.
    resource: Option<String>,
    /// As for resource.
    operation: Option<String>,
    /// As for resource.
    mode: Option<String>,
    /// n8n's whole definition (TypeScript) instead of rows.
    #[serde(default)]
    full: bool,
}

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
        let mut wanted = json!({ "nodeId": self.r#type });
        for (name, value) in [
            ("version", &self.version),
            ("resource", &self.resource),
            ("operation", &self.operation),
            ("mode", &self.mode),
        ] {
            if let Some(value) = value {
                wanted[name] = value.as_str().into();
            }
        }
        let text = call_node_tool(n8n, "get_node_types", &json!({ "nodeIds": [wanted] })).await?;
        let Some((_, errors)) = text.split_once("# Errors") else {
            return Ok(self.read(text));
        };
        let error = errors.trim().lines().next().unwrap_or_default();
        if let Some(operations) = operations(error) {
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
    fn read(self, mut text: String) -> NodeDescription {
        let mut node = self.bare();
        let definition = parse(&text);
        node.version = definition.version;
        if self.full || definition.properties.is_empty() {
            text.truncate(text.floor_char_boundary(MAX_DEFINITION));
            node.definition = Some(text);
        } else {
            node.properties = definition.properties;
            node.credentials = definition.credentials;
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

/// The rows of `Available resource (operations): channel (archive, close); file (get).`
fn operations(error: &str) -> Option<Vec<String>> {
    let (_, listed) = error.split_once("(operations): ")?;
    let rows = listed.trim_end_matches('.').split("; ");
    let rows = rows.map(|row| row.replacen(" (", ": ", 1).trim_end_matches(')').to_owned());
    Some(rows.collect())
}
