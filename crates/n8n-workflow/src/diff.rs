//! Compares two definitions of a workflow.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::connections::lines;
use crate::draft::{Draft, Place, counterpart, visit_members};
use crate::node::Node;

/// Bytes of one value.
const MAX_VALUE: usize = 2_000;
/// Members that say nothing about what a workflow does.
const IGNORED: [&str; 4] = ["id", "name", "position", "webhookId"];

/// These changes lead from one definition to the other.
#[derive(Default, Serialize, JsonSchema)]
pub struct WorkflowDiff {
    /// They are new nodes, with their types.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    added: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    renamed: Vec<String>,
    /// These values differ, in nodes that are in both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<ValueChange>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    connected: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disconnected: Vec<String>,
    /// Values were shortened.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct ValueChange {
    node: String,
    /// It is, for example, `parameters.url`.
    path: String,
    /// It is absent if it did not exist; of long texts it has the lines that differ.
    before: Option<String>,
    after: Option<String>,
}

/// The values of a node by their paths, each as it is and as it may be shown.
type Leaves = BTreeMap<String, (Value, String)>;

/// Returns the changes from `before` to `after`. Each comes with its redacted form, so that a changed secret is
/// named and not shown.
pub fn diff(before: (&Draft, &Draft), after: (&Draft, &Draft)) -> WorkflowDiff {
    let with_type = |node: &Node| format!("{} ({})", node.name(), node.kind());
    let (old, new) = (&before.0.nodes, &after.0.nodes);
    let pairs = new.iter().map(|node| {
        let at = counterpart(node, before.0)?;
        // A node that took the name of another one, which was renamed, is a new one.
        let is_renamed = |other: &Node| other.get("id") == old[at].get("id");
        let is_same = is_renamed(node) || !new.iter().any(is_renamed);
        is_same.then_some(at)
    });
    let pairs: Vec<_> = pairs.collect();
    let lines = |draft: &Draft| BTreeSet::from_iter(lines(&draft.connections));
    let (connected, disconnected) = (lines(after.0), lines(before.0));
    let mut found = WorkflowDiff {
        connected: connected.difference(&disconnected).cloned().collect(),
        disconnected: disconnected.difference(&connected).cloned().collect(),
        ..WorkflowDiff::default()
    };
    let removed = (0..old.len()).filter(|at| !pairs.contains(&Some(*at)));
    found.removed = removed.map(|at| with_type(&old[at])).collect();
    for ((node, shown), at) in new.iter().zip(&after.1.nodes).zip(&pairs) {
        let Some(at) = *at else {
            found.added.push(with_type(node));
            continue;
        };
        let (name, old_name) = (node.name(), old[at].name());
        if old_name != name {
            found.renamed.push(format!("{old_name} -> {name}"));
        }
        let old = leaves_of(&old[at], &before.1.nodes[at]);
        found.compare(name, &old, &leaves_of(node, shown));
    }
    found
}

impl WorkflowDiff {
    fn compare(&mut self, node: &str, old: &Leaves, new: &Leaves) {
        let paths: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for path in paths {
            let (old, new) = (old.get(path), new.get(path));
            if old.map(|(value, _)| value) == new.map(|(value, _)| value) {
                continue;
            }
            let text = |leaf: Option<&(Value, String)>| leaf.map(|(_, shown)| shown.clone());
            let [before, after] = differing_lines(text(old), text(new)).map(|text| {
                let mut text = text?;
                let end = text.floor_char_boundary(MAX_VALUE);
                self.cut |= end < text.len();
                text.truncate(end);
                Some(text)
            });
            self.changed.push(ValueChange {
                node: node.to_owned(),
                path: path.clone(),
                before,
                after,
            });
        }
    }
}

/// The values of a node that say what it does.
fn leaves_of(node: &Node, shown: &Node) -> Leaves {
    let mut says = node.0.clone();
    says.retain(|key, _| !IGNORED.contains(&key.as_str()));
    let mut leaves = Leaves::new();
    visit_members(
        &says,
        shown,
        &Place::default(),
        &mut |place, value, shown| {
            let text = shown.as_str().map(str::to_owned);
            let text = text.unwrap_or_else(|| shown.to_string());
            leaves.insert(place.path, (value.clone(), text));
        },
    );
    leaves
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
