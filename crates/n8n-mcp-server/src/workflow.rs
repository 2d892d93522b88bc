//! Workflows as they are written: changed by small operations, checked, and put into the form that
//! n8n takes. Nothing is sent here.

mod accepted;
pub(crate) mod check;
mod connections;
mod edit;
mod expressions;
mod restore;
#[cfg(test)]
mod tests;

use mcp_core::tool::ToolError;
use serde_json::{Map, Value, json};
use uuid::Uuid;

pub(crate) use accepted::{TIERS, Tier};
pub(crate) use connections::{Connection, MAIN, connections};
pub(crate) use edit::{Operation, apply};
pub(crate) use restore::restore;

/// The width of a node in the editor, with the gap to the next.
const STEP: i64 = 220;

/// A definition that somebody is working on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Draft {
    pub(crate) name: String,
    pub(crate) nodes: Vec<Map<String, Value>>,
    /// By name of the node that they start from.
    pub(crate) connections: Map<String, Value>,
    pub(crate) settings: Map<String, Value>,
}

impl Draft {
    /// Reads what somebody wrote, or what n8n returned: of the latter, what n8n itself keeps is left
    /// out. Nodes get what n8n demands and nobody thinks of: an id and a position.
    ///
    /// # Errors
    /// What has the wrong type.
    pub(crate) fn read(mut given: Map<String, Value>) -> Result<Self, ToolError> {
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
        };
        draft.complete();
        Ok(draft)
    }

    /// The node of this name.
    pub(crate) fn node(&self, name: &str) -> Option<&Map<String, Value>> {
        self.nodes.iter().find(|node| name_of(node) == name)
    }

    /// The body that n8n takes for it, and what it does not take: the names of those parts.
    pub(crate) fn body(&self, tier: Tier) -> (Value, Vec<String>) {
        let mut left_out = Vec::new();
        let mut settings = self.settings.clone();
        settings.retain(|key, _| tier.keeps_setting(key) || note(&mut left_out, "settings", key));
        let nodes = self.nodes.iter().cloned().map(|mut node| {
            let name = name_of(&node).to_owned();
            node.retain(|key, _| tier.keeps_field(key) || note(&mut left_out, &name, key));
            Value::Object(node)
        });
        let nodes: Vec<Value> = nodes.collect();
        let body = json!({
            "name": self.name, "nodes": nodes, "connections": self.connections,
            "settings": settings,
        });
        (body, left_out)
    }

    /// What n8n demands of nodes and nobody thinks of.
    fn complete(&mut self) {
        let mut x = 0;
        for node in &mut self.nodes {
            let has_id = node.get("id").is_some_and(Value::is_string);
            if !has_id {
                node.insert("id".into(), Uuid::new_v4().to_string().into());
            }
            match node.get("position").and_then(|at| at.get(0)?.as_i64()) {
                Some(at) => x = x.max(at + STEP),
                None => {
                    node.insert("position".into(), json!([x, 0]));
                    x += STEP;
                }
            }
            node.entry("parameters").or_insert_with(|| json!({}));
            let version = node.get("typeVersion").and_then(Value::as_f64);
            node.insert("typeVersion".into(), version_of(version.unwrap_or(1.0)));
            // n8n makes one only where the editor does.
            let kind = node.get("type").and_then(Value::as_str).unwrap_or_default();
            if needs_webhook_id(kind) && !node.contains_key("webhookId") {
                node.insert("webhookId".into(), Uuid::new_v4().to_string().into());
            }
        }
    }
}

/// n8n writes version 2 as `2`.
fn version_of(version: f64) -> Value {
    serde_json::from_str(&version.to_string()).unwrap_or_else(|_| json!(version))
}

/// Leaves it out, and says so.
fn note(left_out: &mut Vec<String>, of: &str, key: &str) -> bool {
    left_out.push(format!("{of}: {key}"));
    false
}

/// The name of a node; empty where it has none.
pub(crate) fn name_of(node: &Map<String, Value>) -> &str {
    node.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// The type of a node; empty where it has none.
pub(crate) fn type_of(node: &Map<String, Value>) -> &str {
    node.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Nodes whose URLs are made of an id of their own.
fn needs_webhook_id(kind: &str) -> bool {
    let kind = kind.rsplit('.').next().unwrap_or_default();
    matches!(
        kind,
        "webhook" | "formTrigger" | "chatTrigger" | "wait" | "form"
    )
}

fn object(given: &mut Map<String, Value>, key: &str) -> Result<Map<String, Value>, ToolError> {
    match given.remove(key) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(object)) => Ok(object),
        Some(_) => Err(wrong(key, "an object")),
    }
}

fn wrong(field: &str, expected: &str) -> ToolError {
    ToolError::invalid_argument(format!("`workflow.{field}` must be {expected}."))
}
