//! Drafts of workflows: changed by small operations, and put into the form that n8n accepts.

mod called;
mod edit;
mod restore;

use serde_json::{Map, Value, json};
use upstream::redact::Redactor;
use uuid::Uuid;

use crate::node::{Node, number};
use crate::workflow::{Name, Workflow};

pub use called::{called_ids, called_workflows};
pub use edit::{Operation, apply};
pub use restore::{PLACEHOLDER, hidden_places, restore};
pub(crate) use restore::{Place, counterpart, visit_members};

// One field more than n8n accepts in a workflow and it rejects the whole, and it returns fields that it rejects.
const SETTINGS: &str = "saveExecutionProgress saveManualExecutions saveDataErrorExecution \
    saveDataSuccessExecution executionTimeout errorWorkflow timezone executionOrder callerPolicy \
    callerIds timeSavedPerExecution availableInMCP timeSavedMode redactionPolicy \
    customTelemetryTags credentialResolverId";
const NODE_FIELDS: &str = "id name webhookId disabled notesInFlow notes type typeVersion \
    executeOnce alwaysOutputData retryOnFail maxTries waitBetweenTries continueOnFail onError \
    position parameters credentials customTelemetryTags";

fn is_setting(key: &str) -> bool {
    SETTINGS.split(' ').any(|name| name == key)
}

fn is_node_field(key: &str) -> bool {
    NODE_FIELDS.split(' ').any(|name| name == key)
}

/// The width of a node in the editor, including the gap to the next.
const NODE_SPACING: f64 = 220.0;

/// The definition of a workflow that is being written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// Empty only if n8n has it so.
    pub(crate) name: String,
    /// In the form of n8n, each with an id and a position.
    pub nodes: Vec<Node>,
    /// By the name of the node that they start from.
    pub connections: Map<String, Value>,
    /// Settings of the workflow, by name.
    pub settings: Map<String, Value>,
    /// The frames that people draw around nodes, which n8n checks against the nodes; `None` leaves them as they are.
    node_groups: Option<Vec<Value>>,
    /// Output that was pinned to nodes, by their names; `None` leaves it as it is.
    pin_data: Option<Map<String, Value>>,
    /// Three asterisks in it hide nothing: n8n has them, or they were put back.
    hides_nothing: bool,
}

impl Draft {
    /// The definition that n8n has. Three asterisks in it are its own.
    pub fn of(stored: &Workflow) -> Self {
        let mut draft = Self {
            // n8n keeps a name that is empty, and a change must be able to mend it.
            name: stored.name.clone(),
            nodes: stored.nodes.clone(),
            connections: stored.connections.clone(),
            settings: stored.settings.clone(),
            node_groups: stored.node_groups.clone(),
            pin_data: stored.pin_data.clone(),
            hides_nothing: true,
        };
        draft.complete();
        draft
    }

    /// The definition with the nodes and connections of a version, and its groups, which are absent in versions from
    /// before there were any.
    pub fn with_version(
        &self,
        nodes: Vec<Node>,
        connections: Map<String, Value>,
        groups: Option<Vec<Value>>,
    ) -> Self {
        let mut draft = Self {
            nodes,
            connections,
            node_groups: groups.or_else(|| self.node_groups.clone()),
            ..self.clone()
        };
        draft.complete();
        restore::move_pins(&mut draft, self);
        draft
    }

    /// The draft as it is shown: without the secrets of its nodes.
    #[must_use]
    pub fn redacted(&self, redactor: &Redactor) -> Self {
        let mut shown = self.clone();
        for node in &mut shown.nodes {
            *node = node.redacted(redactor);
        }
        shown
    }

    /// Takes away what only the editor uses.
    pub(crate) fn drop_editor_parts(&mut self) {
        (self.node_groups, self.pin_data) = (None, None);
    }

    /// Takes the placeholders of hidden values as they are, for a copy that is only checked; returns their places.
    pub fn accept_placeholders(&mut self) -> Vec<String> {
        self.hides_nothing = true;
        restore::hidden_in(&self.nodes, &self.settings)
    }

    /// The body to send, and the names of the parts of nodes that n8n does not accept. The settings that it does not
    /// keep are known from its answer: [`Draft::lost_settings`].
    ///
    /// # Errors
    /// The places of all placeholders of hidden values that do not stand in n8n's own definition: n8n would keep
    /// them in place of the values.
    pub fn body(&self) -> Result<(Value, Vec<String>), String> {
        if !self.hides_nothing {
            restore::refused(&restore::hidden_in(&self.nodes, &self.settings))?;
        }
        let mut left_out = Vec::new();
        let mut settings = self.settings.clone();
        settings.retain(|key, _| is_setting(key));
        let mut nodes = self.nodes.clone();
        for node in &mut nodes {
            let name = node.name().to_owned();
            node.retain(|key, _| {
                let is_kept = is_node_field(key);
                left_out.extend((!is_kept).then(|| format!("{name}: {key}")));
                is_kept
            });
            // Without an id n8n would take any credential of the type; with null the one of the name, if there is one.
            let credentials = node.get_mut("credentials").and_then(Value::as_object_mut);
            let credentials = credentials.into_iter().flat_map(Map::values_mut);
            for credential in credentials.filter_map(Value::as_object_mut) {
                credential.entry("id").or_insert(Value::Null);
            }
        }
        let mut body = json!({
            "name": self.name, "nodes": nodes, "connections": self.connections, "settings": settings,
        });
        if let Some(groups) = &self.node_groups {
            body["nodeGroups"] = self.groups_of_nodes(groups).into();
        }
        if let Some(pins) = &self.pin_data {
            body["pinData"] = pins.clone().into();
        }
        Ok((body, left_out))
    }

    /// The settings that n8n does not have as they were written; `kept` are those in its answer. It ignores some, and
    /// takes others only with a licence.
    pub fn lost_settings(&self, kept: &Map<String, Value>) -> Vec<String> {
        let is_kept = |key: &str, value: &Value| match kept.get(key) {
            Some(kept) => kept == value || (value.is_number() && kept.as_f64() == value.as_f64()),
            // What takes a setting away, and the timeout that n8n has without one.
            None => {
                [json!("DEFAULT"), json!(""), json!(false)].contains(value)
                    || key == "executionTimeout"
            }
        };
        let lost = self
            .settings
            .iter()
            .filter(|(key, value)| !is_kept(key, value));
        lost.map(|(key, _)| format!("settings: {key}")).collect()
    }

    /// The groups without nodes that the draft does not have: n8n refuses the whole workflow for one of those.
    fn groups_of_nodes(&self, groups: &[Value]) -> Vec<Value> {
        let mut groups = groups.to_vec();
        groups.retain_mut(|group| {
            let members = group.get_mut("nodeIds").and_then(Value::as_array_mut);
            members.is_none_or(|ids| {
                ids.retain(|id| self.nodes.iter().any(|node| node.get("id") == Some(id)));
                !ids.is_empty()
            })
        });
        groups
    }

    /// Reads a definition that a caller wrote; parts that only n8n maintains are ignored. Adds what n8n
    /// requires and callers forget: an id and a position for each node; leaves out members that are null.
    ///
    /// # Errors
    /// When a part has the wrong type.
    pub fn read(mut given: Map<String, Value>) -> Result<Self, String> {
        let name = name_in(&mut given)?;
        let mut draft = Self::read_parts(given)?;
        draft.set_name(name);
        Ok(draft)
    }

    /// Reads what a caller wrote in place of the `current` definition: a part that is left out or null stays, of nodes
    /// also parts of them.
    ///
    /// # Errors
    /// When a part has the wrong type.
    pub fn read_change(mut given: Map<String, Value>, current: &Self) -> Result<Self, String> {
        given.retain(|_, part| !part.is_null());
        // n8n may have an empty one, which stays until the caller writes another.
        let is_kept = given.get("name").is_none_or(|name| *name == current.name);
        let name = match is_kept {
            true => current.name.clone(),
            false => name_in(&mut given)
                .map_err(|fault| format!("{fault} Leave it out to keep the name."))?
                .into(),
        };
        restore::keep_parts(&mut given, current);
        let mut changed = Self::read_parts(given)?;
        changed.name = name;
        changed.node_groups = changed.node_groups.or_else(|| current.node_groups.clone());
        Ok(changed)
    }

    /// Reads all but the name.
    fn read_parts(mut given: Map<String, Value>) -> Result<Self, String> {
        let nodes = match given.remove("nodes") {
            Some(Value::Array(nodes)) => nodes,
            _ => return Err(wrong("nodes", "an array of nodes")),
        };
        let as_node = |(at, node): (usize, Value)| match node {
            Value::Object(node) => Ok(Node(node)),
            _ => Err(wrong(&format!("nodes[{at}]"), "an object")),
        };
        let nodes: Result<Vec<_>, _> = nodes.into_iter().enumerate().map(as_node).collect();
        let groups = given.remove("nodeGroups");
        let mut draft = Self {
            nodes: nodes?,
            connections: object(&mut given, "connections")?,
            settings: object(&mut given, "settings")?,
            node_groups: groups.and_then(|groups| groups.as_array().cloned()),
            ..Self::default()
        };
        draft.complete();
        Ok(draft)
    }

    /// The name of the workflow.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Renames the workflow.
    pub fn set_name(&mut self, name: Name) {
        self.name = name.into();
    }

    /// The node with this name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name() == name)
    }

    /// Gives each trigger a new path: two active workflows cannot have the same URL.
    pub fn make_urls_unique(&mut self) {
        for node in &mut self.nodes {
            if node.contains_key("webhookId") {
                node.insert("webhookId".into(), Uuid::new_v4().to_string().into());
            }
            let places: &[&str] = match node.short_kind() {
                "webhook" | "mcpTrigger" => &["/path"],
                "formTrigger" => &["/path", "/options/path"],
                _ => &[],
            };
            let suffix = &Uuid::new_v4().simple().to_string()[..8];
            for place in places {
                let parameters = node.get_mut("parameters");
                if let Some(path) = parameters.and_then(|all| all.pointer_mut(place)) {
                    let old = path.as_str().unwrap_or_default();
                    *path = json!(format!("{}-{suffix}", old.trim_end_matches('/')));
                }
            }
        }
    }

    /// Adds to each node what n8n requires and callers forget, and writes numbers, texts and nulls of other
    /// programs as n8n takes them. What is left, n8n judges.
    fn complete(&mut self) {
        self.settings.retain(|_, value| !value.is_null());
        drop_nulls(&mut self.connections);
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
            if node.needs_webhook_id() && !node.contains_key("webhookId") {
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

/// The version as n8n writes it: `2`, not `2.0`.
fn version_of(version: f64) -> Value {
    serde_json::from_str(&version.to_string()).unwrap_or_else(|_| json!(version))
}

fn name_in(given: &mut Map<String, Value>) -> Result<Name, String> {
    let name = match given.remove("name") {
        Some(Value::String(name)) => Name::try_from(name).ok(),
        _ => None,
    };
    name.ok_or_else(|| wrong("name", "a text that is not empty"))
}

fn object(given: &mut Map<String, Value>, key: &str) -> Result<Map<String, Value>, String> {
    match given.remove(key) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(object)) => Ok(object),
        Some(_) => Err(wrong(key, "an object")),
    }
}

fn wrong(field: &str, expected: &str) -> String {
    format!("`workflow.{field}` must be {expected}.")
}
