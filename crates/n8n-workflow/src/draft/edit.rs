//! Applies small operations to a draft: all of them or none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Draft, is_node_field, is_setting, version_of};
use crate::connections::{Connection, MAIN, MAX_INDEX, connections_to_json, parse_connections};
use crate::expressions;
use crate::node::Node;
use crate::workflow::Name;

/// Fields of a node that `fields` cannot set; other arguments or operations do.
const RESERVED_FIELDS: [&str; 3] = ["id", "name", "parameters"];

/// Texts of a node that an error names.
const MAX_TEXTS: usize = 30;

/// One change.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Operation {
    /// The operation makes this change.
    op: Op,
    /// Name the node; of a connection it is the start.
    node: Option<String>,
    /// It is the end of a connection, or the new name of a node or workflow.
    to: Option<String>,
    /// A new node has this type, such as n8n-nodes-base.set.
    r#type: Option<String>,
    /// The node has this typeVersion.
    version: Option<f64>,
    /// They are merged into the node's parameters; null removes one.
    parameters: Option<Map<String, Value>>,
    /// Set other fields of the node: disabled, credentials, onError, notes, position; null removes one.
    fields: Option<Map<String, Value>>,
    /// They are merged into the workflow's settings; null removes one.
    settings: Option<Map<String, Value>>,
    /// A connection is main by default, or ai_tool, ai_languageModel …
    kind: Option<String>,
    /// Outputs are counted from 0.
    output: Option<u16>,
    /// Inputs are counted from 0.
    input: Option<u16>,
    /// replace_text changes this parameter, such as `jsCode` or `options.a[0].value`.
    path: Option<String>,
    /// This text is there once.
    find: Option<String>,
    /// This text takes its place.
    replace: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Op {
    AddNode,
    RemoveNode,
    RenameNode,
    ConfigureNode,
    ReplaceText,
    Connect,
    Disconnect,
    SetSettings,
    RenameWorkflow,
}

/// Applies all operations, in order. Texts are replaced in what was `shown` of the draft, in which values are
/// hidden; [`super::restore()`] puts those back. Returns the changed draft, and what was `shown` with the same changes.
///
/// # Errors
/// The first operation that is not possible, and why; then none is applied.
pub fn apply(
    draft: &Draft,
    shown: &Draft,
    operations: Vec<Operation>,
) -> Result<(Draft, Draft), String> {
    let mut changed = Draft {
        hides_nothing: false,
        ..draft.clone()
    };
    let (mut before, mut shown, mut seen) = (draft.clone(), shown.clone(), shown.clone());
    for (at, operation) in operations.into_iter().enumerate() {
        let op = json!(operation.op);
        // The names in expressions change; which text hides what must stay known.
        if operation.op == Op::RenameNode {
            for twin in [&mut before, &mut shown] {
                // The node may be a new one.
                twin.apply(operation.clone()).ok();
            }
        }
        let apply = |to: &mut Draft| match operation.op {
            Op::ReplaceText => to.replace_text(operation.clone(), &before, &shown),
            _ => to.apply(operation.clone()),
        };
        let applied = apply(&mut changed).and_then(|()| apply(&mut seen));
        applied.map_err(|reason| {
            let op = op.as_str().unwrap_or_default();
            format!("operations[{at}] ({op}): {reason}. Nothing was changed.")
        })?;
    }
    Ok((changed, seen))
}

fn required<T>(value: Option<T>, name: &str) -> Result<T, String> {
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
            Op::AddNode => self.add(operation),
            Op::ConfigureNode => {
                let name = self.existing(operation.node.clone())?;
                self.configure(&name, operation)
            }
            // With the draft as it was shown.
            Op::ReplaceText => Ok(()),
            Op::RemoveNode => {
                let name = self.existing(operation.node)?;
                self.nodes.retain(|node| node.name() != name);
                self.reconnect(|all| all.retain(|one| one.from != name && one.to != name))
            }
            Op::RenameNode => {
                let name = self.existing(operation.node)?;
                self.rename(&name, required(operation.to, "to")?)
            }
            Op::Connect | Op::Disconnect => {
                let connection = Connection {
                    from: self.existing(operation.node)?,
                    to: self.existing(Some(required(operation.to, "to")?))?,
                    kind: operation.kind.unwrap_or_else(|| MAIN.to_owned()),
                    output: operation.output.unwrap_or(0).into(),
                    input: operation.input.unwrap_or(0).into(),
                };
                let connects = operation.op == Op::Connect;
                if connects && connection.output.max(connection.input) > MAX_INDEX {
                    return Err(format!(
                        "no node has an `output` or `input` above {MAX_INDEX}"
                    ));
                }
                self.set_connected(connection, connects)
            }
            Op::SetSettings => {
                let settings = required(operation.settings, "settings")?;
                if let Some(unknown) = settings.keys().find(|key| !is_setting(key)) {
                    return Err(format!("n8n has no setting {unknown:?}"));
                }
                merge(&mut self.settings, settings);
                Ok(())
            }
            Op::RenameWorkflow => {
                let name = Name::try_from(required(operation.to, "to")?);
                self.set_name(name.map_err(|fault| format!("`to`: {fault}"))?);
                Ok(())
            }
        }
    }

    fn add(&mut self, operation: Operation) -> Result<(), String> {
        let name = required(operation.node.clone(), "node")?;
        let kind = required(operation.r#type.clone(), "type")?;
        if name.trim().is_empty() || self.node(&name).is_some() {
            return Err(format!(
                "there is a node {name:?} already, or it has no name"
            ));
        }
        let node = json!({"name": name, "type": kind});
        self.nodes.extend(node.as_object().cloned().map(Node));
        self.complete();
        self.configure(&name, operation)
    }

    /// Changes version, parameters and other fields of a node.
    fn configure(&mut self, name: &str, operation: Operation) -> Result<(), String> {
        let fields = operation.fields.unwrap_or_default();
        let is_settable = |key: &str| !RESERVED_FIELDS.contains(&key) && is_node_field(key);
        if let Some(field) = fields.keys().find(|key| !is_settable(key)) {
            return Err(format!("`fields` cannot contain {field:?}"));
        }
        let node = self.nodes.iter_mut().find(|node| node.name() == name);
        let node = required(node, "node")?;
        if let Some(version) = operation.version {
            node.insert("typeVersion".into(), version_of(version));
        }
        if let Some(patch) = operation.parameters {
            match node.entry("parameters").or_insert_with(|| json!({})) {
                Value::Object(parameters) => merge(parameters, patch),
                other => *other = patch.into(),
            }
        }
        // n8n goes by the id: that of one credential must not stay beside the name of another.
        let given = fields.get("credentials").and_then(Value::as_object);
        let known = node.get_mut("credentials").and_then(Value::as_object_mut);
        if let (Some(given), Some(known)) = (given, known) {
            known.retain(|kind, _| !given.contains_key(kind));
        }
        merge(node, fields);
        Ok(())
    }

    fn replace_text(
        &mut self,
        operation: Operation,
        before: &Draft,
        shown: &Draft,
    ) -> Result<(), String> {
        let name = self.existing(operation.node)?;
        let path = required(operation.path, "path")?;
        let path = path.trim_start_matches("parameters.");
        let find = required(operation.find, "find")?;
        let replace = required(operation.replace, "replace")?;
        let node = self.nodes.iter_mut().find(|node| node.name() == name);
        let node = required(node, "node")?;
        let id = node.get("id").cloned();
        let old = |all: &Draft| {
            let node = all.nodes.iter().find(|one| one.get("id") == id.as_ref())?;
            text_at(&mut node.clone(), path).cloned()
        };
        let (old, shown) = (old(before), old(shown));
        let Some(text) = text_at(node, path) else {
            let mut texts = Vec::new();
            expressions::visit_texts(&node["parameters"], "", &mut |path, _| {
                texts.push(path.to_owned());
            });
            texts.truncate(MAX_TEXTS);
            let texts = texts.join(", ");
            return Err(format!("`path` {path:?} is no text; {name:?} has: {texts}"));
        };
        if let Some(shown) = shown.filter(|_| old.as_ref() == Some(text)) {
            *text = shown;
        }
        if find.is_empty() {
            return Err("`find` is empty".to_owned());
        }
        // A line feed also stands for the line end of Windows.
        let unix = |all: &str| all.replace("\r\n", "\n");
        let windows = |all: &str| unix(all).replace('\n', "\r\n");
        let forms = [
            (windows(&find), windows(&replace)),
            (unix(&find), unix(&replace)),
        ];
        let is_there = |find: &str| text.contains(find);
        let (find, replace) = match forms.into_iter().find(|(form, _)| is_there(form)) {
            Some(form) if !is_there(&find) => form,
            _ => (find, replace),
        };
        let count = text.matches(&find).count();
        if count != 1 {
            return Err(format!(
                "`find` must be in `{path}` once, and is there {count} times"
            ));
        }
        *text = text.replacen(&find, &replace, 1);
        Ok(())
    }

    fn rename(&mut self, old: &str, new: String) -> Result<(), String> {
        if new.trim().is_empty() || self.node(&new).is_some() {
            return Err(format!(
                "there is a node {new:?} already, or it is not a valid name"
            ));
        }
        for node in &mut self.nodes {
            if node.name() == old {
                node.insert("name".into(), new.clone().into());
            }
            if let Some(parameters) = node.get_mut("parameters") {
                rename_in(parameters, "", old, &new);
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

    fn set_connected(&mut self, connection: Connection, connects: bool) -> Result<(), String> {
        let Connection { from, to, .. } = connection.clone();
        let (mut was_connected, mut ways) = (false, Vec::new());
        self.reconnect(|all| {
            was_connected = all.contains(&connection);
            let ends = all.iter().filter(|one| one.from == from && one.to == to);
            ways.extend(ends.map(|one| {
                let (output, input, kind) = (one.output, one.input, &one.kind);
                format!("output {output}, input {input}, kind {kind}")
            }));
            all.retain(|one| connects || *one != connection);
            all.extend((connects && !was_connected).then_some(connection));
        })?;
        match ways.join("; ") {
            _ if connects || was_connected => Ok(()),
            ways if ways.is_empty() => Err(format!("{from:?} is not connected to {to:?}")),
            ways => Err(format!(
                "{from:?} is connected to {to:?} in another way: {ways}"
            )),
        }
    }

    fn reconnect(&mut self, change: impl FnOnce(&mut Vec<Connection>)) -> Result<(), String> {
        let before = parse_connections(&self.connections);
        let before = before.map_err(|place| format!("{place} cannot be read"))?;
        let mut all = before.clone();
        change(&mut all);
        let mut now = connections_to_json(&all);
        // Those of other nodes stay as they are written, with outputs that lead nowhere.
        for (from, written) in &self.connections {
            let is_its = |one: &&Connection| one.from == *from;
            let is_same = before.iter().filter(is_its).eq(all.iter().filter(is_its));
            if is_same && self.node(from).is_some() {
                now.insert(from.clone(), written.clone());
            }
        }
        self.connections = now;
        Ok(())
    }

    fn existing(&self, name: Option<String>) -> Result<String, String> {
        let name = required(name, "node")?;
        if self.node(&name).is_some() {
            return Ok(name);
        }
        let names = self.nodes.iter().map(|node| format!("{:?}", node.name()));
        let names = names.collect::<Vec<_>>().join(", ");
        Err(format!("there is no node {name:?}; there are {names}"))
    }
}

/// The text in the parameters of a node at a path such as `options.a[0].value`.
fn text_at<'a>(node: &'a mut Node, path: &str) -> Option<&'a mut String> {
    let path = path.replace('~', "~0").replace('/', "~1");
    let pointer = format!("/{}", path.replace(['.', '['], "/").replace(']', ""));
    match node.get_mut("parameters")?.pointer_mut(&pointer)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// Renames a node in expressions and in code, which other texts may only look like. `key` is the name of the parameter.
fn rename_in(value: &mut Value, key: &str, old: &str, new: &str) {
    let is_code = matches!(key, "jsCode" | "functionCode" | "code" | "html");
    match value {
        Value::String(text) if is_code || text.starts_with('=') => {
            let renamed = expressions::renamed(text, old, new);
            if *text != renamed {
                *text = renamed;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| rename_in(one, key, old, new)),
        Value::Object(all) => all
            .iter_mut()
            .for_each(|(key, one)| rename_in(one, key, old, new)),
        _ => {}
    }
}
