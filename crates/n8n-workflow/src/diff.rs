//! Compares two definitions of a workflow.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::connections::{Connection, parse_connections};
use crate::draft::{Draft, name_of, type_of};

/// Bytes of all shown values; about 3,000 tokens.
const MAX_SHOWN: usize = 12 * 1024;
/// Bytes of one value.
const MAX_VALUE: usize = 2_000;
/// Members that say nothing about what a workflow does.
const IGNORED: &[&str] = &["id", "name", "position", "webhookId"];

/// Changes from one definition to another.
#[derive(Default, Serialize, JsonSchema)]
pub struct WorkflowDiff {
    /// Nodes, with their types.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    added: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    renamed: Vec<String>,
    /// Values in nodes that are in both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<ValueChange>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    connected: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disconnected: Vec<String>,
    /// Values were left out or shortened.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
    #[serde(skip)]
    size: usize,
}

#[derive(Serialize, JsonSchema)]
struct ValueChange {
    node: String,
    /// Such as `parameters.url`.
    path: String,
    /// Absent if it did not exist; of long texts the lines that differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
}

/// A value as it is, and as it may be shown.
type Twin<'a> = (&'a Value, &'a Value);

/// Returns the changes from `before` to `after`. Each comes with its redacted form, so that a changed secret is
/// named and not shown. `line` writes a connection.
pub fn diff(
    before: (&Draft, &Draft),
    after: (&Draft, &Draft),
    line: impl Fn(Connection) -> String,
) -> WorkflowDiff {
    let mut found = WorkflowDiff::default();
    let with_type = |node: &Map<String, Value>| format!("{} ({})", name_of(node), type_of(node));
    let mut gone: BTreeSet<&str> = before.0.nodes.iter().map(name_of).collect();
    for (node, shown) in after.0.nodes.iter().zip(&after.1.nodes) {
        let old = find(&before.0.nodes, node)
            .and_then(|at| Some((before.0.nodes.get(at)?, before.1.nodes.get(at)?)));
        let Some((old, old_shown)) = old else {
            found.added.push(with_type(node));
            continue;
        };
        gone.remove(name_of(old));
        let name = name_of(node);
        if name_of(old) != name {
            found.renamed.push(format!("{} -> {name}", name_of(old)));
        }
        found.members(name, "", (old, old_shown), (node, shown));
    }
    let removed = before
        .0
        .nodes
        .iter()
        .filter(|node| gone.contains(name_of(node)));
    found.removed = removed.map(with_type).collect();
    let lines = |draft: &Draft| -> BTreeSet<String> {
        let all = parse_connections(&draft.connections).unwrap_or_default();
        all.into_iter().map(&line).collect()
    };
    let (old, new) = (lines(before.0), lines(after.0));
    found.connected = new.difference(&old).cloned().collect();
    found.disconnected = old.difference(&new).cloned().collect();
    found
}

/// The place of the same node, by its id or, where another has that id, by its name.
fn find(nodes: &[Map<String, Value>], wanted: &Map<String, Value>) -> Option<usize> {
    let has_id = |node: &Map<String, Value>| {
        wanted
            .get("id")
            .is_some_and(|id| node.get("id") == Some(id))
    };
    let by_id = nodes
        .iter()
        .position(|node| has_id(node) && type_of(node) == type_of(wanted));
    by_id.or_else(|| {
        nodes
            .iter()
            .position(|node| name_of(node) == name_of(wanted))
    })
}

impl WorkflowDiff {
    fn members(
        &mut self,
        node: &str,
        path: &str,
        (old, old_shown): (&Map<String, Value>, &Map<String, Value>),
        (new, new_shown): (&Map<String, Value>, &Map<String, Value>),
    ) {
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for key in keys {
            if path.is_empty() && IGNORED.contains(&key.as_str()) {
                continue;
            }
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            let old = old.get(key).zip(old_shown.get(key));
            let new = new.get(key).zip(new_shown.get(key));
            self.value(node, path, old, new);
        }
    }

    fn value(&mut self, node: &str, path: String, old: Option<Twin<'_>>, new: Option<Twin<'_>>) {
        if old.map(|old| old.0) == new.map(|new| new.0) {
            return;
        }
        match (old, new) {
            (
                Some((Value::Object(old), Value::Object(old_shown))),
                Some((Value::Object(new), Value::Object(new_shown))),
            ) => self.members(node, &path, (old, old_shown), (new, new_shown)),
            (
                Some((Value::Array(old), Value::Array(old_shown))),
                Some((Value::Array(new), Value::Array(new_shown))),
            ) => {
                for at in 0..old.len().max(new.len()) {
                    let old = old.get(at).zip(old_shown.get(at));
                    let new = new.get(at).zip(new_shown.get(at));
                    self.value(node, format!("{path}[{at}]"), old, new);
                }
            }
            _ => {
                let text = |twin: Option<Twin<'_>>| twin.map(|(_, shown)| as_text(shown));
                let (before, after) = differing_lines(text(old), text(new));
                let (before, after) = (self.fitting(before), self.fitting(after));
                if self.size > MAX_SHOWN {
                    self.cut = true;
                    return;
                }
                self.changed.push(ValueChange {
                    node: node.to_owned(),
                    path,
                    before,
                    after,
                });
            }
        }
    }

    fn fitting(&mut self, text: Option<String>) -> Option<String> {
        let text = text?;
        let end = text.floor_char_boundary(MAX_VALUE);
        self.cut |= end < text.len();
        self.size += end;
        Some(text[..end].to_owned())
    }
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Two texts without the lines that both begin and end with.
fn differing_lines(
    before: Option<String>,
    after: Option<String>,
) -> (Option<String>, Option<String>) {
    // Two secrets look alike.
    let texts = before.as_ref().zip(after.as_ref());
    let Some((before, after)) = texts.filter(|(before, after)| before != after) else {
        return (before, after);
    };
    let (mut old, mut new): (Vec<&str>, Vec<&str>) =
        (before.split('\n').collect(), after.split('\n').collect());
    let same = |old: &[&str], new: &[&str]| {
        let pairs = old.iter().zip(new);
        pairs.take_while(|(old, new)| old == new).count()
    };
    let first = same(&old, &new);
    (old, new) = (old.split_off(first), new.split_off(first));
    old.reverse();
    new.reverse();
    let last = same(&old, &new);
    let rest = |lines: Vec<&str>| {
        let lines: Vec<&str> = lines.into_iter().skip(last).rev().collect();
        lines.join("\n")
    };
    (Some(rest(old)), Some(rest(new)))
}
