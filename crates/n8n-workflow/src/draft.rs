//! Drafts of workflows: changed by small operations, and put into the form that n8n accepts.

mod accepted_fields;
mod called;
mod edit;
mod placeholder;
mod restore;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::node_type::last_part;

pub use accepted_fields::FieldSet;
pub use called::{CalledWorkflow, called_ids, called_workflows};
pub use edit::{Operation, apply};
pub use placeholder::{PLACEHOLDER, hidden_places};
pub use restore::{keep_parts, restore};

use placeholder::Placeholders;

/// The width of a node in the editor, including the gap to the next.
const NODE_SPACING: f64 = 220.0;

/// The reason why JSON is no draft, or why a change of one is not possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftError(String);

impl fmt::Display for DraftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DraftError {}

/// The definition of a workflow that is being written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Draft {
    /// Not empty.
    pub name: String,
    /// In the form of n8n, each with an id and a position.
    pub nodes: Vec<Map<String, Value>>,
    /// By the name of the node that they start from.
    pub connections: Map<String, Value>,
    /// Settings of the workflow, by name.
    pub settings: Map<String, Value>,
    /// The placeholders that stand in n8n's own definition: they hide nothing.
    #[serde(skip)]
    placeholders: Placeholders,
}

/// A draft without placeholders of hidden values, which may be written to n8n.
#[derive(Clone, Copy)]
pub struct WritableDraft<'a>(&'a Draft);

impl Draft {
    /// Reads a definition that n8n returned, as [`Draft::read`] does. Three asterisks in it are its own.
    ///
    /// # Errors
    /// When a part has the wrong type.
    pub fn read_stored(stored: Map<String, Value>) -> Result<Self, DraftError> {
        let mut draft = Self::read(stored)?;
        draft.placeholders = Placeholders::new(&draft.nodes, &draft.settings);
        Ok(draft)
    }

    /// Takes the placeholders of hidden values as they are, for a copy that is only checked; returns their places.
    pub fn accept_placeholders(&mut self) -> Vec<String> {
        let places = self.placeholders.others(&self.nodes, &self.settings);
        self.placeholders = Placeholders::new(&self.nodes, &self.settings);
        places
    }

    /// The draft, if it may be written: n8n would keep the placeholder of a hidden value in place of the value.
    ///
    /// # Errors
    /// The places of all placeholders that do not stand in n8n's own definition.
    pub fn writable(&self) -> Result<WritableDraft<'_>, DraftError> {
        let places = self.placeholders.others(&self.nodes, &self.settings);
        restore::refused(&places)?;
        Ok(WritableDraft(self))
    }

    /// Reads a definition that a caller wrote; parts that only n8n maintains are ignored. Adds what n8n
    /// requires and callers forget: an id and a position for each node; leaves out members that are null.
    ///
    /// # Errors
    /// When a part has the wrong type.
    pub fn read(mut given: Map<String, Value>) -> Result<Self, DraftError> {
        let name = match given.remove("name") {
            Some(Value::String(name)) if !name.trim().is_empty() => name,
            _ => return Err(wrong("name", "a text that is not empty")),
        };
        let nodes = match given.remove("nodes") {
            Some(Value::Array(nodes)) => nodes,
            _ => return Err(wrong("nodes", "an array of nodes")),
        };
        let as_node = |(at, node): (usize, Value)| match node {
            Value::Object(node) => Ok(node),
            _ => Err(wrong(&format!("nodes[{at}]"), "an object")),
        };
        let nodes: Result<Vec<_>, _> = nodes.into_iter().enumerate().map(as_node).collect();
        let mut draft = Self {
            name,
            nodes: nodes?,
            connections: object(&mut given, "connections")?,
            settings: object(&mut given, "settings")?,
            placeholders: Placeholders::default(),
        };
        draft.settings.retain(|_, value| !value.is_null());
        drop_nulls(&mut draft.connections);
        draft.complete();
        Ok(draft)
    }

    /// The node with this name.
    pub fn node(&self, name: &str) -> Option<&Map<String, Value>> {
        self.nodes.iter().find(|node| name_of(node) == name)
    }

    /// Gives each trigger a new path: two active workflows cannot have the same URL.
    pub fn make_urls_unique(&mut self) {
        for node in &mut self.nodes {
            let has_url = matches!(short_type(node), "webhook" | "formTrigger");
            if node.contains_key("webhookId") {
                node.insert("webhookId".into(), Uuid::new_v4().to_string().into());
            }
            let mut parameters = node.get_mut("parameters").and_then(Value::as_object_mut);
            let path = parameters.as_mut().and_then(|all| all.get_mut("path"));
            if let (true, Some(path)) = (has_url, path) {
                let old = path.as_str().unwrap_or_default();
                let suffix = &Uuid::new_v4().simple().to_string()[..8];
                *path = json!(format!("{}-{suffix}", old.trim_end_matches('/')));
            }
        }
    }

    /// Adds to each node what n8n requires and callers forget, and writes numbers, texts and nulls of other
    /// programs as n8n takes them. What is left, n8n judges.
    fn complete(&mut self) {
        let mut x = 0.0_f64;
        for node in &mut self.nodes {
            node.retain(|_, value| !value.is_null());
            for key in ["id", "name", "type", "webhookId", "notes"] {
                if let Some(text) = node.get_mut(key).filter(|value| value.is_number()) {
                    *text = text.to_string().into();
                }
            }
            if !node.contains_key("id") {
                node.insert("id".into(), Uuid::new_v4().to_string().into());
            }
            let at = node.get("position");
            match at.and_then(|at| number(at.get(0)?)) {
                Some(at) => x = x.max(at + NODE_SPACING),
                None => {
                    node.insert("position".into(), json!([x.round() as i64, 0]));
                    x += NODE_SPACING;
                }
            }
            node.entry("parameters").or_insert_with(|| json!({}));
            let version = node.get("typeVersion").map_or(Some(1.0), number);
            if let Some(version) = version {
                node.insert("typeVersion".into(), version_of(version));
            }
            // n8n itself generates one only in its editor.
            if needs_webhook_id(node) && !node.contains_key("webhookId") {
                node.insert("webhookId".into(), Uuid::new_v4().to_string().into());
            }
        }
    }
}

/// Leaves out the nulls that n8n does not take in connections: it takes only an output that leads nowhere.
fn drop_nulls(connections: &mut Map<String, Value>) {
    connections.retain(|_, kinds| !kinds.is_null());
    for kinds in connections.values_mut().filter_map(Value::as_object_mut) {
        kinds.retain(|_, outputs| !outputs.is_null());
        let outputs = kinds.values_mut().filter_map(Value::as_array_mut).flatten();
        for targets in outputs.filter_map(Value::as_array_mut) {
            targets.retain(|target| !target.is_null());
        }
    }
}

impl WritableDraft<'_> {
    /// The body to send, and the names of the parts that are not among the `accepted` fields.
    pub fn body(self, accepted: FieldSet) -> (Value, Vec<String>) {
        let mut left_out = Vec::new();
        let mut keep = |is_kept: bool, owner: &str, key: &str| {
            left_out.extend((!is_kept).then(|| format!("{owner}: {key}")));
            is_kept
        };
        let mut settings = self.0.settings.clone();
        settings.retain(|key, _| keep(accepted.keeps_setting(key), "settings", key));
        let mut nodes = self.0.nodes.clone();
        for node in &mut nodes {
            let name = name_of(node).to_owned();
            node.retain(|key, _| keep(accepted.keeps_field(key), &name, key));
        }
        let body = json!({
            "name": self.0.name, "nodes": nodes, "connections": self.0.connections,
            "settings": settings,
        });
        (body, left_out)
    }
}

/// A number, also in a text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// The version as n8n writes it: `2`, not `2.0`.
fn version_of(version: f64) -> Value {
    serde_json::from_str(&version.to_string()).unwrap_or_else(|_| json!(version))
}

/// The name of a node; empty if it has none.
pub fn name_of(node: &Map<String, Value>) -> &str {
    node.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// The type of a node; empty if it has none.
pub fn type_of(node: &Map<String, Value>) -> &str {
    node.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The last part of a node's type.
pub fn short_type(node: &Map<String, Value>) -> &str {
    last_part(type_of(node))
}

/// True for a node that does not run.
pub fn is_disabled(node: &Map<String, Value>) -> bool {
    node.get("disabled") == Some(&Value::Bool(true))
}

/// True for nodes whose URL holds their webhook id.
fn needs_webhook_id(node: &Map<String, Value>) -> bool {
    let kinds = ["webhook", "formTrigger", "chatTrigger", "wait", "form"];
    kinds.contains(&short_type(node))
}

fn object(given: &mut Map<String, Value>, key: &str) -> Result<Map<String, Value>, DraftError> {
    match given.remove(key) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(object)) => Ok(object),
        Some(_) => Err(wrong(key, "an object")),
    }
}

fn wrong(field: &str, expected: &str) -> DraftError {
    DraftError(format!("`workflow.{field}` must be {expected}."))
}
