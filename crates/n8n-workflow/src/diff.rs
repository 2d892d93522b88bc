//! Compares two definitions of a workflow.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::connections::{Connection, parse_connections};
use crate::draft::{Draft, name_of, type_of};

/// Bytes of all values that are shown; about 3,000 tokens.
const MAX_SHOWN: usize = 12 * 1024;
/// Bytes of one value.
const MAX_VALUE: usize = 2_000;
/// Members that say nothing about what a workflow does.
const IGNORED: [&str; 4] = ["id", "name", "position", "webhookId"];

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

type Node = Map<String, Value>;

/// A value as it is, and as it may be shown.
type Twin<'a> = (&'a Value, &'a Value);

/// Returns the changes from `before` to `after`. Each comes with its redacted form, so that a changed secret is
/// named and not shown. `line` writes a connection.
pub fn diff(
    before: (&Draft, &Draft),
    after: (&Draft, &Draft),
    line: impl Fn(Connection) -> String,
) -> WorkflowDiff {
    let with_type = |node: &Node| format!("{} ({})", name_of(node), type_of(node));
    let (old, new) = (&before.0.nodes, &after.0.nodes);
    let pairs = pairs(old, new);
    let lines = |draft: &Draft| -> BTreeSet<String> {
        let all = parse_connections(&draft.connections).unwrap_or_default();
        all.into_iter().map(&line).collect()
    };
    let (connected, disconnected) = (lines(after.0), lines(before.0));
    let mut found = WorkflowDiff {
        connected: connected.difference(&disconnected).cloned().collect(),
        disconnected: disconnected.difference(&connected).cloned().collect(),
        ..WorkflowDiff::default()
    };
    let compared = |node: &Node| {
        let mut node = node.clone();
        node.retain(|key, _| !IGNORED.contains(&key.as_str()));
        Value::Object(node)
    };
    for (at, node) in old.iter().enumerate() {
        if !pairs.contains(&Some(at)) {
            found.removed.push(with_type(node));
        }
    }
    for ((node, shown), at) in new.iter().zip(&after.1.nodes).zip(&pairs) {
        let Some(at) = *at else {
            found.added.push(with_type(node));
            continue;
        };
        let name = name_of(node);
        if name_of(&old[at]) != name {
            found
                .renamed
                .push(format!("{} -> {name}", name_of(&old[at])));
        }
        let [old, old_shown] = [before.0, before.1].map(|draft| compared(&draft.nodes[at]));
        let (new, shown) = (compared(node), compared(shown));
        found.compare(
            name,
            String::new(),
            Some((&old, &old_shown)),
            Some((&new, &shown)),
        );
    }
    let size = |one: &ValueChange| {
        let texts = one.before.iter().chain(&one.after).map(String::len);
        one.node.len() + one.path.len() + texts.sum::<usize>()
    };
    let mut room = MAX_SHOWN;
    let all = found.changed.len();
    found.changed.retain(|one| {
        room = room.saturating_sub(size(one));
        room > 0
    });
    found.cut |= found.changed.len() < all;
    found
}

/// For each of the `new` nodes the place of the same one among the `old`: by its id, and of the others by its
/// name.
fn pairs(old: &[Node], new: &[Node]) -> Vec<Option<usize>> {
    let by_id: fn(&Node, &Node) -> bool = |old, new| {
        new.contains_key("id") && old.get("id") == new.get("id") && type_of(old) == type_of(new)
    };
    let by_name = |old: &Node, new: &Node| name_of(old) == name_of(new);
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
    fn compare(&mut self, node: &str, path: String, old: Option<Twin<'_>>, new: Option<Twin<'_>>) {
        if old.map(|old| old.0) == new.map(|new| new.0) {
            return;
        }
        let both = old
            .zip(new)
            .filter(|(old, new)| discriminant(old.0) == discriminant(new.0));
        if let Some((old, new)) = both.and_then(|(old, new)| parts(old).zip(parts(new))) {
            let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let path = format!("{path}{}", key.1);
                self.compare(node, path, old.get(key).copied(), new.get(key).copied());
            }
            return;
        }
        let text = |twin: Option<Twin<'_>>| twin.map(|(_, shown)| as_text(shown));
        let [before, after] = differing_lines(text(old), text(new)).map(|text| {
            let mut text = text?;
            let end = text.floor_char_boundary(MAX_VALUE);
            self.cut |= end < text.len();
            text.truncate(end);
            Some(text)
        });
        self.changed.push(ValueChange {
            node: node.to_owned(),
            path: path.trim_start_matches('.').to_owned(),
            before,
            after,
        });
    }
}

/// The parts of an object or a list by what they add to the path, in order; `None` for other values.
fn parts<'a>((value, shown): Twin<'a>) -> Option<BTreeMap<(usize, String), Twin<'a>>> {
    match (value, shown) {
        (Value::Object(all), Value::Object(shown)) => {
            let twins = all
                .iter()
                .filter_map(|(key, value)| Some((key, (value, shown.get(key)?))));
            Some(
                twins
                    .map(|(key, twin)| ((0, format!(".{key}")), twin))
                    .collect(),
            )
        }
        (Value::Array(all), Value::Array(shown)) => {
            let twins = all.iter().zip(shown).enumerate();
            Some(
                twins
                    .map(|(at, twin)| ((at, format!("[{at}]")), twin))
                    .collect(),
            )
        }
        _ => None,
    }
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Two texts without the lines that both begin and end with.
fn differing_lines(before: Option<String>, after: Option<String>) -> [Option<String>; 2] {
    // Two secrets look alike.
    let texts = before.as_ref().zip(after.as_ref());
    let Some((old, new)) = texts.filter(|(before, after)| before != after) else {
        return [before, after];
    };
    let [old, new] = [old, new].map(|text| text.split('\n').collect::<Vec<_>>());
    let pairs = old.iter().zip(&new);
    let first = pairs.take_while(|(old, new)| old == new).count();
    let pairs = old[first..].iter().rev().zip(new[first..].iter().rev());
    let last = pairs.take_while(|(old, new)| old == new).count();
    [old, new].map(|lines| Some(lines[first..lines.len() - last].join("\n")))
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
    fn values_are_shown_up_to_a_bound() {
        let nodes = |url: &str| -> Value {
            let all = (0..1_000).map(|at| node(&at.to_string(), &format!("Node {at}"), url));
            all.collect()
        };
        let found = changes(&nodes("a"), &nodes("b"));
        assert_eq!(found["cut"], true);
        assert!(found["changed"].as_array().unwrap().len() > 100, "{found}");
        let long = changes(
            &json!([node("1", "A", "u")]),
            &json!([node("1", "A", &"x".repeat(9_000))]),
        );
        assert_eq!(
            long["changed"][0]["after"].as_str().unwrap().len(),
            MAX_VALUE
        );
        assert_eq!(long["cut"], true);
    }
}
