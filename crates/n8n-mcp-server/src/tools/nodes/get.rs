//! `get_node`

use n8n_workflow::node_type::{NodeDefinition, NodeProperty, attached_by, last_part, output_names};
use n8n_workflow::trigger::TriggerKind;
use upstream::text::truncate;

use super::call_node_tool;
use super::list;
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

#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct NodeDescription {
    r#type: String,
    version: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    properties: Vec<NodeProperty>,
    /// Kinds of its connections; others are attached to it by ai_… (`?`: not required).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inputs: Vec<String>,
    /// In the order of their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<String>,
    /// Parameters that n8n takes.
    example: Option<Map<String, Value>>,
    /// Types of credentials that it takes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    credentials: Vec<String>,
    /// Choose one of these and ask again: each has parameters of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    operations: Vec<String>,
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
            // The error has them as names of files, which the search does not.
            let name = last_part(&self.r#type);
            let query = json!({"queries": [name], "usage": "workflow"});
            let outline = call_node_tool(n8n, "search_nodes", &query).await?;
            let mut found = list::parse(&outline).into_iter();
            let found = found.find(|node| node.r#type == self.r#type);
            let exact = found
                .map(|node| node.operations)
                .filter(|all| !all.is_empty());
            let operations = exact.unwrap_or(operations);
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
        let definition = NodeDefinition::parse(&text);
        node.version.clone_from(&definition.version);
        if self.full || definition.properties.is_empty() {
            text.truncate(text.floor_char_boundary(MAX_DEFINITION));
            node.definition = Some(text);
        } else {
            node.example = definition.example(&self.r#type);
            node.connect(definition.attached);
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

impl NodeDescription {
    /// Fills in inputs and outputs.
    fn connect(&mut self, attached: Vec<String>) {
        let name = last_part(&self.r#type);
        let provided = attached_by(&self.r#type);
        if provided.is_none() && TriggerKind::from_type(&self.r#type).is_none() {
            self.inputs.push("main".to_owned());
        }
        self.inputs.extend(attached);
        let version = self
            .version
            .as_deref()
            .and_then(|version| version.parse().ok());
        self.outputs = match provided {
            Some(kind) => vec![kind],
            None => output_names(name, version.unwrap_or(1.0))
                .iter()
                .enumerate()
                .map(|(at, name)| format!("{at} {name}").trim_end().to_owned())
                .collect(),
        };
    }
}

/// The rows of `Available resource (operations): channel (archive, close); file (get).`
fn operations(error: &str) -> Option<Vec<String>> {
    let (_, listed) = error.split_once("(operations): ")?;
    let rows = listed.trim_end_matches('.').split("; ");
    let rows = rows.map(|row| row.replacen(" (", ": ", 1).trim_end_matches(')').to_owned());
    Some(rows.collect())
}
