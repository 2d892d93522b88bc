//! A workflow as n8n returns it.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A workflow in a list, as n8n sends it (with all of its nodes, which the parser skips) and as
/// a tool shows it.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(description = "")]
#[expect(
    missing_docs,
    reason = "documentation of a member would become a part of a tool's schema"
)]
pub struct WorkflowRow {
    pub id: String,
    pub name: String,
    #[serde(default)]
    #[schemars(!default)]
    pub active: bool,
    #[serde(default, skip_serializing)]
    pub is_archived: bool,
    #[serde(
        default,
        deserialize_with = "tag_names",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub tags: Vec<String>,
    #[serde(
        default,
        rename = "shared",
        deserialize_with = "project_ids",
        skip_serializing
    )]
    pub projects: Vec<String>,
}

/// A workflow with its nodes.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workflow {
    /// The id in n8n.
    pub id: String,
    /// Not unique.
    pub name: String,
    /// Written by a person.
    pub description: Option<String>,
    /// Its triggers start it.
    #[serde(default)]
    pub active: bool,
    /// Hidden in the editor; it cannot be activated.
    #[serde(default)]
    pub is_archived: bool,
    /// Names of its tags.
    #[serde(default, deserialize_with = "tag_names")]
    pub tags: Vec<String>,
    /// As they are in the editor.
    #[serde(default)]
    pub nodes: Vec<Node>,
    /// [`crate::connections`] reads them.
    #[serde(default)]
    pub connections: Map<String, Value>,
    /// By name.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// Output that was pinned to nodes in the editor, by the name of the node.
    pub pin_data: Option<Map<String, Value>>,
    /// The version in production (n8n 2); `nodes` may hold later changes.
    active_version: Option<PublishedVersion>,
    /// Ids of the projects that it is shared with.
    #[serde(default, rename = "shared", deserialize_with = "project_ids")]
    pub projects: Vec<String>,
    /// Changes with the definition and the name, not with activation or tags.
    #[serde(default)]
    pub updated_at: String,
}

#[derive(Deserialize)]
struct PublishedVersion {
    #[serde(default)]
    nodes: Vec<Node>,
}

/// A node of a workflow.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Unique in the workflow.
    pub name: String,
    /// Such as `n8n-nodes-base.set`.
    #[serde(rename = "type")]
    pub kind: String,
    /// 0 if absent.
    #[serde(default)]
    pub type_version: f64,
    /// It passes its input on.
    #[serde(default)]
    pub disabled: bool,
    /// A part of URLs of some triggers.
    pub webhook_id: Option<String>,
    /// By name.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// By the type of the credential.
    #[serde(default)]
    pub credentials: HashMap<String, CredentialRef>,
}

/// The credential of a node.
#[derive(Deserialize)]
pub struct CredentialRef {
    /// The id in n8n.
    pub id: Option<String>,
    /// The name in n8n.
    pub name: Option<String>,
}

/// The parts of a workflow that define it, byte for byte as n8n wrote them, without pinned data,
/// owner and published copy.
#[derive(Deserialize, Serialize, JsonSchema)]
#[schemars(inline, description = "")]
#[expect(
    missing_docs,
    reason = "documentation of a member would become a part of a tool's schema"
)]
pub struct Definition {
    pub name: String,
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub nodes: Box<RawValue>,
    #[schemars(with = "Map<String, Value>")]
    pub connections: Box<RawValue>,
    #[schemars(with = "Option<Map<String, Value>>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
}

fn tag_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let tags = Vec::<Tag>::deserialize(deserializer)?;
    Ok(tags.into_iter().map(|tag| tag.name).collect())
}

fn project_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Share {
        project_id: String,
    }
    let shares = Vec::<Share>::deserialize(deserializer)?;
    Ok(shares.into_iter().map(|share| share.project_id).collect())
}

impl Workflow {
    /// The nodes that run in production.
    pub fn live_nodes(&self) -> &[Node] {
        match &self.active_version {
            Some(version) if self.active => &version.nodes,
            _ => &self.nodes,
        }
    }

    /// True if n8n publishes versions of it, which n8n 2 does.
    pub fn has_versions(&self) -> bool {
        self.active_version.is_some()
    }

    /// True if n8n's built-in MCP server may act on it.
    pub fn available_in_mcp(&self) -> bool {
        self.settings.get("availableInMCP") == Some(&Value::Bool(true))
    }
}
