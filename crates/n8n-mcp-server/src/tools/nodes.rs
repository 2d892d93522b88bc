//! The toolset `nodes`: the nodes that this n8n has, from its own MCP server. There is no
//! copy of n8n's nodes in this server: it returns only what n8n returns.

use std::collections::HashSet;

use n8n_workflow::node_type::{
    attached_by, attached_to, compact, example, last_part, output_names, version_of,
};
use n8n_workflow::trigger::TriggerKind;
use upstream::text::{first_line, truncate};

use mcp_client::CallToolResult;

use crate::builtin_mcp::structured;
use crate::tools::prelude::*;

pub(crate) fn nodes() -> Toolset<N8n> {
    Toolset::new().with::<ListNodes>().with::<GetNode>()
}

/// The result of a node tool of n8n's MCP server.
pub(in crate::tools) async fn call_node_tool(
    n8n: &N8n,
    tool: &str,
    arguments: &Value,
) -> Result<CallToolResult, ToolError> {
    if !n8n.mcp.is_configured() {
        return Err(ToolError::unauthorized(
            "n8n describes its nodes through its MCP server only: enable it (n8n: Settings > MCP \
             access) and set N8N_MCP_TOKEN or N8N_MCP_TOKEN_FILE.",
        ));
    }
    n8n.mcp.call(tool, arguments).await?.ok_or_else(|| {
        ToolError::upstream(
            "The MCP server of this n8n cannot describe nodes. Update n8n, \
             or look at the node in n8n's editor.",
        )
    })
}

/// The text in that result.
pub(in crate::tools) async fn node_text(
    n8n: &N8n,
    tool: &str,
    arguments: &Value,
) -> Result<String, ToolError> {
    let result = call_node_tool(n8n, tool, arguments).await?;
    let text = result.text();
    if result.is_error {
        let reason = first_line(&text, 300);
        return Err(ToolError::invalid_argument(format!(
            "n8n does not accept this: {reason}"
        )));
    }
    let answer: Value = structured(&result).unwrap_or_default();
    let answer = answer["results"]
        .as_str()
        .or(answer["definitions"].as_str());
    Ok(answer.map_or(text, str::to_owned))
}

const MAX_SEARCHES: usize = 10;

/// Searches the nodes that this n8n has.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListNodes {
    /// Name services or what the node should do, for example `slack` or `split items`; n8n returns up to 5 nodes
    /// for each.
    search: Vec<String>,
    /// Show only nodes of this kind.
    category: Option<Category>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Category {
    /// Starts workflows.
    Trigger,
    /// Does something with items.
    Action,
    /// Models, agents, memories and what they use.
    Ai,
    /// A tool of agents.
    Tool,
}

#[derive(Serialize, JsonSchema)]
struct Nodes {
    nodes: Vec<FoundNode>,
}

impl Tool for ListNodes {
    const NAME: &'static str = "list_nodes";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Nodes;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Nodes, ToolError> {
        let blank = self.search.iter().any(|text| text.trim().is_empty());
        if self.search.is_empty() || self.search.len() > MAX_SEARCHES || blank {
            return Err(ToolError::invalid_argument(format!(
                "`search` must contain 1 to {MAX_SEARCHES} texts that are not blank."
            )));
        }
        let mut queries = self.search.clone();
        if self.category == Some(Category::Trigger) {
            // n8n ranks by name: without the word, actions of the same service come first.
            queries.extend(self.search.iter().map(|text| format!("{text} trigger")));
        }
        let usage = match self.category {
            Some(Category::Tool) => "agentTool",
            _ => "workflow",
        };
        let arguments = json!({"queries": queries, "usage": usage});
        let outline = node_text(n8n, "search_nodes", &arguments).await?;
        let mut nodes = parse(&outline);
        nodes.retain(|node| self.category.is_none_or(|one| one.contains(&node.r#type)));
        Ok(Nodes { nodes })
    }
}

impl Category {
    fn contains(self, kind: &str) -> bool {
        let name = last_part(kind);
        let is_trigger = TriggerKind::from_type(kind).is_some();
        let is_tool = name.ends_with("Tool") || name.starts_with("tool");
        let is_ai = kind.contains("langchain");
        match self {
            Self::Trigger => is_trigger,
            Self::Ai => is_ai,
            Self::Tool => is_tool,
            Self::Action => !is_trigger && !is_tool && !is_ai,
        }
    }
}

/// Workflows can use this node.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
struct FoundNode {
    /// It is the `type` in a workflow and for get_node.
    r#type: String,
    name: String,
    /// It is the newest version.
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    /// The operations go by resource, for example `channel: archive, create`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    operations: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    modes: Vec<String>,
}

/// Indents of the parts of the outline.
const FIELD: usize = 2;
const GROUP: usize = 4;
const MEMBER: usize = 6;
const OPERATION: usize = 12;

/// The nodes of the outline, without duplicates.
fn parse(outline: &str) -> Vec<FoundNode> {
    let mut nodes: Vec<FoundNode> = Vec::new();
    let mut group = "";
    for line in outline.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let bullet = text.strip_prefix("- ");
        if let (0, Some(kind)) = (indent, bullet) {
            group = "";
            nodes.push(FoundNode {
                // Triggers have a mark after their type.
                r#type: kind.split(' ').next().unwrap_or_default().to_owned(),
                ..FoundNode::default()
            });
            continue;
        }
        let Some(node) = nodes.last_mut() else {
            continue;
        };
        let member = bullet.and_then(|text| text.split(':').next());
        match (indent, text.split_once(": "), member) {
            (FIELD, Some(("Display Name", value)), _) => node.name = value.to_owned(),
            (FIELD, Some(("Version", value)), _) => node.version = value.to_owned(),
            (FIELD, Some(("Description", value)), _) => node.description = value.to_owned(),
            (FIELD, ..) => group = "",
            (GROUP, ..) => group = text.trim_end_matches(':'),
            (MEMBER, _, Some(member)) => match group {
                // Nodes without resources have operations alone.
                "resource" | "operation" => node.operations.push(member.to_owned()),
                "mode" => node.modes.push(member.to_owned()),
                _ => {}
            },
            (OPERATION, _, Some(operation)) => {
                if let Some(resource) = node.operations.last_mut() {
                    resource.push_str(if resource.contains(':') { ", " } else { ": " });
                    resource.push_str(operation);
                }
            }
            _ => {}
        }
    }
    let mut seen = HashSet::new();
    nodes.retain(|node| seen.insert(node.r#type.clone()));
    nodes
}

/// Bytes; about 8,000 tokens.
const MAX_DEFINITION: usize = 32 * 1024;

/// Shows the parameters of a node, as this n8n has it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetNode {
    /// list_nodes shows the type, for example n8n-nodes-base.slack.
    r#type: String,
    /// The newest version is the default.
    version: Option<String>,
    /// list_nodes shows it; it is needed if there are any.
    resource: Option<String>,
    /// It works as `resource` does.
    operation: Option<String>,
    /// It works as `resource` does.
    mode: Option<String>,
    /// Show n8n's definition with all of its comments.
    #[serde(default)]
    full: bool,
}

#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
struct NodeDescription {
    r#type: String,
    version: Option<String>,
    /// These are the kinds of its connections; others are attached to it by ai_… (`?`: not required).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inputs: Vec<String>,
    /// The outputs are in the order of their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<String>,
    /// n8n takes these parameters.
    example: Option<Map<String, Value>>,
    /// Choose one of these and ask again: each has parameters of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    operations: Vec<String>,
    /// It is n8n's definition of the parameters and credentials, in TypeScript; `?` marks what is optional.
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
        let text = node_text(n8n, "get_node_types", &json!({ "nodeIds": [wanted] })).await?;
        let Some((_, errors)) = text.split_once("# Errors") else {
            return Ok(self.read(&text));
        };
        let error = errors.trim().lines().next().unwrap_or_default();
        if error.contains("(operations): ") {
            // The error has them as names of files, which the search does not.
            let name = last_part(&self.r#type);
            let query = json!({"queries": [name], "usage": "workflow"});
            let mut found = parse(&node_text(n8n, "search_nodes", &query).await?);
            found.retain(|node| node.r#type == self.r#type && !node.operations.is_empty());
            if let Some(node) = found.pop() {
                return Ok(NodeDescription {
                    operations: node.operations,
                    ..self.bare()
                });
            }
        }
        if error.contains("not found") {
            return Err(ToolError::not_found(format!(
                "This n8n has no node {:?}, or not in that version. list_nodes finds the nodes of \
                 this n8n.",
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
    fn read(self, text: &str) -> NodeDescription {
        let mut shown = match self.full {
            true => text.to_owned(),
            false => compact(text),
        };
        shown.truncate(shown.floor_char_boundary(MAX_DEFINITION));
        let mut node = NodeDescription {
            example: example(&self.r#type),
            definition: Some(shown),
            ..self.bare()
        };
        if let Some(version) = version_of(text) {
            node.version = Some(version.to_owned());
        }
        node.connect(attached_to(text));
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
