//! Compares two definitions of a workflow.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::connections::{Connection, parse_connections};
use crate::draft::{Draft, name_of, type_of};

/// Bytes of everything that is shown; about 3,000 tokens.
const MAX_SHOWN: usize = 12 * 1024;
/// Bytes of the JSON around a change: its braces and the names of its members.
const MEMBER_BYTES: usize = 40;
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

/// Compares two nodes.
type IsSame = fn(&Map<String, Value>, &Map<String, Value>) -> bool;

/// Returns the changes from `before` to `after`. Each comes with its redacted form, so that a changed secret is
/// named and not shown. `line` writes a connection.
pub fn diff(
    before: (&Draft, &Draft),
    after: (&Draft, &Draft),
    line: impl Fn(Connection) -> String,
) -> WorkflowDiff {
    let mut found = WorkflowDiff::default();
    let with_type = |node: &Map<String, Value>| format!("{} ({})", name_of(node), type_of(node));
    let (old, new) = (&before.0.nodes, &after.0.nodes);
    let pairs = pairs(old, new);
    let both = || new.iter().zip(&pairs);
    let added = both().filter(|(_, at)| at.is_none());
    let removed = old.iter().enumerate();
    let removed = removed.filter(|(at, _)| !pairs.contains(&Some(*at)));
    let renamed = both().filter_map(|(node, at)| {
        let (old, new) = (name_of(old.get((*at)?)?), name_of(node));
        (old != new).then(|| format!("{old} -> {new}"))
    });
    found.added = found.lines(added.map(|(node, _)| with_type(node)));
    found.removed = found.lines(removed.map(|(_, node)| with_type(node)));
    found.renamed = found.lines(renamed);
    let lines = |draft: &Draft| -> BTreeSet<String> {
        let all = parse_connections(&draft.connections).unwrap_or_default();
        all.into_iter().map(&line).collect()
    };
    let (connected, disconnected) = (lines(after.0), lines(before.0));
    found.connected = found.lines(connected.difference(&disconnected).cloned());
    found.disconnected = found.lines(disconnected.difference(&connected).cloned());
    // Last: values are the longest, and take what names leave.
    for ((node, shown), at) in new.iter().zip(&after.1.nodes).zip(&pairs) {
        let old = at.and_then(|at| Some((old.get(at)?, before.1.nodes.get(at)?)));
        if let Some(old) = old {
            found.members(name_of(node), "", old, (node, shown));
        }
    }
    found
}

/// For each of the `new` nodes the place of the same one among the `old`: by its id, and of the others by its
/// name.
fn pairs(old: &[Map<String, Value>], new: &[Map<String, Value>]) -> Vec<Option<usize>> {
    let by_id: IsSame = |old, new| {
        new.contains_key("id") && old.get("id") == new.get("id") && type_of(old) == type_of(new)
    };
    let by_name: IsSame = |old, new| name_of(old) == name_of(new);
    let mut found = vec![None; new.len()];
    for is_same in [by_id, by_name] {
        for (at, node) in new.iter().enumerate() {
            if found[at].is_none() {
                let mut places = 0..old.len();
                found[at] =
                    places.find(|&at| is_same(&old[at], node) && !found.contains(&Some(at)));
            }
        }
    }
    found
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
                self.size += node.len() + path.len() + MEMBER_BYTES;
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

    /// The texts that fit.
    fn lines(&mut self, texts: impl Iterator<Item = String>) -> Vec<String> {
        let mut shown = Vec::new();
        for text in texts {
            shown.extend(self.fitting(Some(text)));
            if self.size > MAX_SHOWN {
                shown.pop();
                self.cut = true;
                break;
            }
        }
        shown
    }

    fn fitting(&mut self, text: Option<String>) -> Option<String> {
        let text = text?;
        let end = text.floor_char_boundary(MAX_VALUE);
        self.cut |= end < text.len();
        self.size += end + 3;
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn draft(nodes: &Value) -> Draft {
        let draft = json!({"name": "W", "nodes": nodes, "connections": {}, "settings": {}});
        Draft::read(serde_json::from_value(draft).unwrap()).unwrap()
    }

    fn changes(before: &Value, after: &Value) -> Value {
        let (before, after) = (draft(before), draft(after));
        let found = diff((&before, &before), (&after, &after), |_| String::new());
        serde_json::to_value(found).unwrap()
    }

    fn node(id: &str, name: &str, url: &str) -> Value {
        json!({"id": id, "name": name, "type": "x.http", "parameters": {"url": url}})
    }

    #[test]
    fn new_node_under_the_name_of_a_renamed_one_is_shown() {
        let before = json!([node("1", "A", "u")]);
        for after in [
            json!([node("1", "B", "u"), node("2", "A", "v")]),
            json!([node("2", "A", "v"), node("1", "B", "u")]),
        ] {
            let expected = json!({"added": ["A (x.http)"], "renamed": ["A -> B"]});
            assert_eq!(changes(&before, &after), expected);
        }
        // A node that was written again has another id.
        let again = changes(&before, &json!([node("9", "A", "v")]));
        assert_eq!(again["changed"][0]["after"], "v", "{again}");
        let other = json!([node("2", "C", "v")]);
        let expected = json!({"added": ["C (x.http)"], "removed": ["A (x.http)"]});
        assert_eq!(changes(&before, &other), expected);
    }

    #[test]
    fn names_and_paths_count_as_much_as_values() {
        let nodes = |url: &str| -> Value {
            let all = (0..1_000).map(|at| node(&at.to_string(), &format!("Node {at}"), url));
            all.collect()
        };
        let none = json!([]);
        for (before, after, part) in [
            (nodes("a"), nodes("b"), "changed"),
            (none.clone(), nodes("a"), "added"),
            (nodes("a"), none, "removed"),
        ] {
            let found = changes(&before, &after);
            assert_eq!(found["cut"], true);
            assert!(found[part].as_array().unwrap().len() > 100, "{found}");
            assert!(found.to_string().len() < MAX_SHOWN * 3 / 2, "{found}");
        }
    }
}
