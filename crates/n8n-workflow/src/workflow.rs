//! A workflow as n8n returns it.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};
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
    #[serde(default, deserialize_with = "text")]
    #[schemars(!default)]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    #[schemars(!default)]
    pub active: bool,
    #[serde(default, deserialize_with = "or_default", skip_serializing)]
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
    #[serde(default, skip_serializing)]
    version_id: Option<String>,
    #[serde(default, skip_serializing)]
    active_version_id: Option<String>,
    /// Its draft is not the live version: get_workflow names both.
    #[serde(skip_deserializing, skip_serializing_if = "std::ops::Not::not")]
    pub unpublished: bool,
}

impl WorkflowRow {
    /// The row with its mark, if what is live is not the draft.
    pub fn marked(mut self) -> Self {
        let versions = (&self.version_id, &self.active_version_id);
        self.unpublished = self.active && UnpublishedDraft::read(versions).is_some();
        self
    }
}

/// The versions of an active workflow whose draft, which the editor and the tools show, is not what is
/// live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(description = "")]
#[expect(
    missing_docs,
    reason = "documentation of a member would become a part of a tool's schema"
)]
pub struct UnpublishedDraft {
    pub draft_version: String,
    pub live_version: String,
    /// Who wrote the draft.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<String>,
}

impl UnpublishedDraft {
    fn read(versions: (&Option<String>, &Option<String>)) -> Option<Self> {
        let (Some(draft), Some(live)) = versions else {
            return None;
        };
        (draft != live).then(|| Self {
            draft_version: draft.clone(),
            live_version: live.clone(),
            changed_by: None,
            changed_at: None,
        })
    }
}

/// A workflow with its nodes. A part that does not have the form of n8n counts as absent: n8n keeps some that
/// other programs and its earlier versions wrote.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workflow {
    /// The id in n8n.
    #[serde(deserialize_with = "text")]
    pub id: String,
    /// Not unique.
    #[serde(default, deserialize_with = "text")]
    pub name: String,
    /// Written by a person.
    #[serde(default, deserialize_with = "or_default")]
    pub description: Option<String>,
    /// Its triggers start it.
    #[serde(default, deserialize_with = "or_default")]
    pub active: bool,
    /// Hidden in the editor; it cannot be activated.
    #[serde(default, deserialize_with = "or_default")]
    pub is_archived: bool,
    /// Names of its tags.
    #[serde(default, deserialize_with = "tag_names")]
    pub tags: Vec<String>,
    /// As they are in the editor.
    #[serde(default, deserialize_with = "all_readable")]
    pub nodes: Vec<Node>,
    /// [`crate::connections`] reads them.
    #[serde(default, deserialize_with = "or_default")]
    pub connections: Map<String, Value>,
    /// By name.
    #[serde(default, deserialize_with = "or_default")]
    pub settings: Map<String, Value>,
    /// Output that was pinned to nodes in the editor, by the name of the node.
    #[serde(default, deserialize_with = "or_default")]
    pub pin_data: Option<Map<String, Value>>,
    /// The version in production; `nodes` may hold later changes.
    #[serde(default, deserialize_with = "or_default")]
    active_version: Option<PublishedVersion>,
    /// The id of the definition in the editor.
    pub version_id: Option<String>,
    /// The id of the definition in production.
    pub active_version_id: Option<String>,
    /// Ids of the projects that it is shared with.
    #[serde(default, rename = "shared", deserialize_with = "project_ids")]
    pub projects: Vec<String>,
    /// Changes with the definition and the name, not with activation or tags.
    #[serde(default, deserialize_with = "or_default")]
    pub updated_at: String,
}

#[derive(Deserialize)]
struct PublishedVersion {
    #[serde(default, deserialize_with = "all_readable")]
    nodes: Vec<Node>,
}

/// A node of a workflow.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Unique in the workflow.
    #[serde(default, deserialize_with = "text")]
    pub name: String,
    /// Such as `n8n-nodes-base.set`.
    #[serde(default, rename = "type", deserialize_with = "text")]
    pub kind: String,
    /// 0 if absent.
    #[serde(default, deserialize_with = "number")]
    pub type_version: f64,
    /// It passes its input on.
    #[serde(default, deserialize_with = "or_default")]
    pub disabled: bool,
    /// A part of URLs of some triggers.
    #[serde(default, deserialize_with = "optional_text")]
    pub webhook_id: Option<String>,
    /// By name.
    #[serde(default, deserialize_with = "or_default")]
    pub parameters: Map<String, Value>,
    /// By the type of the credential.
    #[serde(default, deserialize_with = "credentials")]
    pub credentials: HashMap<String, CredentialRef>,
    #[serde(default, deserialize_with = "optional_text")]
    on_error: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    continue_on_fail: bool,
}

impl Node {
    /// True if the workflow goes on after its errors.
    pub fn handles_errors(&self) -> bool {
        let goes_on = |text: &str| text.starts_with("continue");
        self.continue_on_fail || self.on_error.as_deref().is_some_and(goes_on)
    }
}

/// The credential of a node.
#[derive(Deserialize)]
pub struct CredentialRef {
    /// The id in n8n; earlier versions wrote only the name.
    #[serde(default, deserialize_with = "optional_text")]
    pub id: Option<String>,
    /// The name in n8n.
    #[serde(default, deserialize_with = "optional_text")]
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
    #[serde(deserialize_with = "text")]
    pub name: String,
    #[schemars(with = "Vec<Map<String, Value>>")]
    #[serde(default = "empty_list")]
    pub nodes: Box<RawValue>,
    #[schemars(with = "Map<String, Value>")]
    #[serde(default)]
    pub connections: Box<RawValue>,
    #[schemars(with = "Option<Map<String, Value>>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Box<RawValue>>,
}

/// A part of n8n's JSON, or the default if it does not have the expected form.
fn or_default<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// A text; a number as text, and nothing else.
fn optional_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(optional_text(deserializer)?.unwrap_or_default())
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let text = value.as_str().and_then(|text| text.parse().ok());
    Ok(value.as_f64().or(text).unwrap_or_default())
}

/// The elements of a list that have the expected form.
fn all_readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let all = match Value::deserialize(deserializer)? {
        Value::Array(all) => all,
        _ => Vec::new(),
    };
    let read = all.into_iter().map(serde_json::from_value);
    Ok(read.filter_map(Result::ok).collect())
}

fn credentials<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<HashMap<String, CredentialRef>, D::Error> {
    let all: Map<String, Value> = or_default(deserializer)?;
    let read = |(kind, value): (String, Value)| {
        let credential = match value {
            Value::String(name) => CredentialRef {
                id: None,
                name: Some(name),
            },
            other => serde_json::from_value(other).ok()?,
        };
        Some((kind, credential))
    };
    Ok(all.into_iter().filter_map(read).collect())
}

fn tag_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    struct Tag {
        name: String,
    }
    let tags: Vec<Tag> = all_readable(deserializer)?;
    Ok(tags.into_iter().map(|tag| tag.name).collect())
}

fn project_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Share {
        project_id: String,
    }
    let shares: Vec<Share> = all_readable(deserializer)?;
    Ok(shares.into_iter().map(|share| share.project_id).collect())
}

fn empty_list() -> Box<RawValue> {
    to_raw_value(&[(); 0]).unwrap_or_default()
}

impl Workflow {
    /// The nodes that run in production.
    pub fn live_nodes(&self) -> &[Node] {
        match &self.active_version {
            Some(version) if self.active => &version.nodes,
            _ => &self.nodes,
        }
    }

    /// The ids of its draft and of what is live, if they differ.
    pub fn unpublished_draft(&self) -> Option<UnpublishedDraft> {
        let versions = (&self.version_id, &self.active_version_id);
        UnpublishedDraft::read(versions).filter(|_| self.active)
    }

    /// True if n8n's built-in MCP server may act on it.
    pub fn available_in_mcp(&self) -> bool {
        self.settings.get("availableInMCP") == Some(&Value::Bool(true))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn odd_parts_count_as_absent() {
        let node = |more: Value| {
            let mut node = json!({"name": "H", "type": "a.b", "typeVersion": 2});
            let (all, Value::Object(more)) = (node.as_object_mut().unwrap(), more) else {
                panic!("an object")
            };
            all.extend(more);
            node
        };
        for odd in [
            json!({"credentials": {"a": "Name"}}),
            json!({"credentials": {"a": {"id": 7, "name": null}}}),
            json!({"credentials": {"a": null, "b": 7, "c": ["x"]}}),
            json!({"credentials": null}),
            json!({"credentials": []}),
            json!({"webhookId": 7, "notes": null, "position": null}),
            json!({"webhookId": {}, "disabled": "true", "typeVersion": "2"}),
            json!({"parameters": null, "disabled": null, "typeVersion": null}),
            json!({"parameters": [], "name": 7, "type": null}),
        ] {
            let workflow = json!({
                "id": "w", "name": "W", "nodes": [node(odd.clone()), null, "x"], "connections": null,
                "settings": null, "tags": null, "shared": null, "pinData": 7, "active": null,
                "isArchived": null, "updatedAt": null, "activeVersion": {"nodes": null}, "meta": null,
            });
            let read: Workflow = serde_json::from_value(workflow.clone()).unwrap();
            assert_eq!((read.nodes.len(), &*read.id), (1, "w"), "{odd}");
            let row: WorkflowRow = serde_json::from_value(workflow).unwrap();
            assert_eq!(row.name, "W");
        }
        let read: Node = serde_json::from_value(node(json!({"credentials":
            {"a": {"id": 7, "name": "N"}, "b": "M"}, "webhookId": 7, "typeVersion": "2.1"})))
        .unwrap();
        let credential = |kind: &str| {
            let one = &read.credentials[kind];
            (one.id.as_deref(), one.name.as_deref())
        };
        assert_eq!(credential("a"), (Some("7"), Some("N")));
        assert_eq!(credential("b"), (None, Some("M")));
        assert_eq!(
            (read.webhook_id.as_deref(), read.type_version),
            (Some("7"), 2.1)
        );
    }
}
