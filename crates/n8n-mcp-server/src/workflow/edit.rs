//! Small changes of a workflow: all of them or none.

use mcp_core::tool::ToolError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::connections::{Connection, MAIN, connections, written};
use super::{Draft, Tier, expressions, name_of, version_of};

/// Fields of a node that have operations of their own.
const OWN: [&str; 3] = ["id", "name", "parameters"];

/// One change.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct Operation {
    /// What to do.
    op: Op,
    /// The node, by name; of a connection the one that it starts from.
    node: Option<String>,
    /// The node that a connection ends at; the new name of a node or workflow.
    to: Option<String>,
    /// Of a new node, such as n8n-nodes-base.set.
    r#type: Option<String>,
    /// Its typeVersion.
    version: Option<f64>,
    /// Merged into the node's; null removes one.
    parameters: Option<Map<String, Value>>,
    /// Others of the node: disabled, credentials, onError, notes, position; null removes one.
    fields: Option<Map<String, Value>>,
    /// Merged into the workflow's; null removes one.
    settings: Option<Map<String, Value>>,
    /// Of a connection: main (default) or ai_tool, ai_languageModel …
    kind: Option<String>,
    /// Number of the output, from 0.
    output: Option<u16>,
    /// Number of the input, from 0.
    input: Option<u16>,
}

/// What a change does.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Op {
    AddNode,
    RemoveNode,
    RenameNode,
    ConfigureNode,
    Connect,
    Disconnect,
    SetSettings,
    RenameWorkflow,
}

impl Op {
    /// As it is written.
    fn as_str(self) -> &'static str {
        match self {
            Self::AddNode => "add_node",
            Self::RemoveNode => "remove_node",
            Self::RenameNode => "rename_node",
            Self::ConfigureNode => "configure_node",
            Self::Connect => "connect",
            Self::Disconnect => "disconnect",
            Self::SetSettings => "set_settings",
            Self::RenameWorkflow => "rename_workflow",
        }
    }
}

/// Applies all operations, in order.
///
/// # Errors
/// Which of them cannot be done and why; then nothing was.
pub(crate) fn apply(draft: &Draft, operations: Vec<Operation>) -> Result<Draft, ToolError> {
    let mut changed = draft.clone();
    for (at, operation) in operations.into_iter().enumerate() {
        let op = operation.op.as_str();
        changed.apply(operation).map_err(|reason| {
            ToolError::invalid_argument(format!(
                "operations[{at}] ({op}): {reason}. Nothing was changed."
            ))
        })?;
    }
    Ok(changed)
}

fn needed<T>(value: Option<T>, name: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("`{name}` is missing"))
}

/// Merges `patch` into `target`: objects member by member, null removes (RFC 7396).
fn merge(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, value) in patch {
        match (target.get_mut(&key), value) {
            (_, Value::Null) => {
                target.remove(&key);
            }
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (_, value) => {
                target.insert(key, value);
            }
        }
    }
}

impl Draft {
    fn apply(&mut self, operation: Operation) -> Result<(), String> {
        match operation.op {
            Op::AddNode => {
                let name = needed(operation.node, "node")?;
                let node = json!({
                    "name": name, "type": needed(operation.r#type, "type")?,
                    "typeVersion": version_of(operation.version.unwrap_or(1.0)),
                });
                self.add(name, node)?;
                self.configure(operation.parameters, operation.fields, None)
            }
            Op::ConfigureNode => {
                let name = self.known(operation.node)?;
                self.configure(
                    operation.parameters,
                    operation.fields,
                    Some((name, operation.version)),
                )
            }
            Op::RemoveNode => {
                let name = self.known(operation.node)?;
                self.nodes.retain(|node| name_of(node) != name);
                self.reconnect(|all| all.retain(|one| one.from != name && one.to != name))
            }
            Op::RenameNode => {
                let name = self.known(operation.node)?;
                self.rename(&name, needed(operation.to, "to")?)
            }
            Op::Connect | Op::Disconnect => {
                let connection = Connection {
                    from: self.known(operation.node)?,
                    to: self.known(Some(needed(operation.to, "to")?))?,
                    kind: operation.kind.unwrap_or_else(|| MAIN.to_owned()),
                    output: operation.output.unwrap_or(0).into(),
                    input: operation.input.unwrap_or(0).into(),
                };
                self.rewire(connection, matches!(operation.op, Op::Connect))
            }
            Op::SetSettings => {
                let settings = needed(operation.settings, "settings")?;
                let unknown = settings.keys().find(|key| !Tier::New.keeps_setting(key));
                if let Some(unknown) = unknown {
                    return Err(format!("n8n has no setting {unknown:?}"));
                }
                merge(&mut self.settings, settings);
                Ok(())
            }
            Op::RenameWorkflow => {
                self.name = needed(operation.to, "to")?;
                Ok(())
            }
        }
    }

    fn add(&mut self, name: String, node: Value) -> Result<(), String> {
        if name.trim().is_empty() || self.node(&name).is_some() {
            return Err(format!(
                "there is a node {name:?} already, or it has no name"
            ));
        }
        if let Value::Object(node) = node {
            self.nodes.push(node);
        }
        self.complete();
        Ok(())
    }

    /// Changes a node: the last one where no name is given.
    fn configure(
        &mut self,
        parameters: Option<Map<String, Value>>,
        fields: Option<Map<String, Value>>,
        other: Option<(String, Option<f64>)>,
    ) -> Result<(), String> {
        if let Some(field) = fields
            .iter()
            .flat_map(Map::keys)
            .find(|key| OWN.contains(&key.as_str()) || !Tier::New.keeps_field(key))
        {
            return Err(format!("`fields` cannot hold {field:?}"));
        }
        let node = match &other {
            Some((name, _)) => self.nodes.iter_mut().find(|node| name_of(node) == name),
            None => self.nodes.last_mut(),
        };
        let node = needed(node, "node")?;
        if let Some((_, Some(version))) = other {
            node.insert("typeVersion".into(), version_of(version));
        }
        if let Some(patch) = parameters {
            match node.entry("parameters").or_insert_with(|| json!({})) {
                Value::Object(parameters) => merge(parameters, patch),
                other => *other = patch.into(),
            }
        }
        merge(node, fields.unwrap_or_default());
        Ok(())
    }

    /// Renames a node wherever it is named: in connections and in expressions.
    fn rename(&mut self, old: &str, new: String) -> Result<(), String> {
        if new.trim().is_empty() || self.node(&new).is_some() {
            return Err(format!("there is a node {new:?} already, or it is no name"));
        }
        for node in &mut self.nodes {
            if name_of(node) == old {
                node.insert("name".into(), new.clone().into());
            }
            if let Some(parameters) = node.get_mut("parameters") {
                rename_in(parameters, old, &new);
            }
        }
        self.reconnect(|all| {
            for one in all {
                for end in [&mut one.from, &mut one.to] {
                    if end == old {
                        end.clone_from(&new);
                    }
                }
            }
        })
    }

    fn rewire(&mut self, connection: Connection, adds: bool) -> Result<(), String> {
        let mut is_there = false;
        self.reconnect(|all| {
            is_there = all.contains(&connection);
            if adds && !is_there {
                all.push(connection.clone());
            } else if !adds {
                all.retain(|one| *one != connection);
            }
        })?;
        if !adds && !is_there {
            let Connection { from, to, .. } = connection;
            return Err(format!("{from:?} is not connected to {to:?} in that way"));
        }
        Ok(())
    }

    fn reconnect(&mut self, change: impl FnOnce(&mut Vec<Connection>)) -> Result<(), String> {
        let all = connections(&self.connections);
        let mut all = all.map_err(|place| format!("{place} cannot be read"))?;
        change(&mut all);
        self.connections = written(&all);
        Ok(())
    }

    /// The name, if there is a node of that name.
    fn known(&self, name: Option<String>) -> Result<String, String> {
        let name = needed(name, "node")?;
        if self.node(&name).is_some() {
            return Ok(name);
        }
        let names = self.nodes.iter().map(|node| format!("{:?}", name_of(node)));
        let names = names.collect::<Vec<_>>().join(", ");
        Err(format!("there is no node {name:?}; there are {names}"))
    }
}

fn rename_in(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::String(text) => {
            let renamed = expressions::renamed(text, old, new);
            if *text != renamed {
                *text = renamed;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| rename_in(one, old, new)),
        Value::Object(all) => all.values_mut().for_each(|one| rename_in(one, old, new)),
        _ => {}
    }
}
