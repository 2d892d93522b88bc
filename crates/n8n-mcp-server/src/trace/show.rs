//! The nodes of an execution as rows that fit into a conversation.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use upstream::redact::Redactor;

use super::data::{NodeRun, Trace};
use super::items::ItemBudget;

/// How much of each node is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Detail<'a> {
    /// Only these nodes; all where there are none.
    pub(crate) nodes: &'a [String],
    /// Items of each node.
    pub(crate) items: usize,
}

/// What one node did.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NodeRow {
    pub(crate) node: String,
    status: String,
    /// How often it ran, where that is not once.
    #[serde(skip_serializing_if = "is_one")]
    runs: usize,
    /// Items that it put out in all of its runs.
    items: usize,
    milliseconds: u64,
    /// The nodes that its input came from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    from: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The first items of its last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Vec<Map<String, Value>>>,
}

/// The rows, and whether items were left out because there are too many or they are too large.
pub(crate) fn rows(trace: &Trace, detail: Detail<'_>, redactor: &Redactor) -> (Vec<NodeRow>, bool) {
    let wanted = |name: &String| detail.nodes.is_empty() || detail.nodes.contains(name);
    let mut budget = ItemBudget::new(redactor);
    let rows = trace
        .nodes
        .iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, runs)| row(name, runs, detail.items, &mut budget))
        .collect();
    (rows, budget.is_cut)
}

fn row(name: &str, runs: &[NodeRun], items: usize, budget: &mut ItemBudget<'_>) -> NodeRow {
    let last = runs.last();
    let mut from: Vec<String> = runs
        .iter()
        .flat_map(|run| run.source.iter().flatten())
        .map(|source| source.previous_node.clone())
        .collect();
    from.dedup();
    let output = (items > 0).then(|| {
        let all = last.into_iter().flat_map(NodeRun::items);
        budget.items(all, items)
    });
    NodeRow {
        node: name.to_owned(),
        status: last
            .and_then(|run| run.execution_status.clone())
            .unwrap_or_else(|| "unknown".to_owned()),
        runs: runs.len(),
        items: runs.iter().map(|run| run.items().count()).sum(),
        milliseconds: runs
            .iter()
            .map(|run| run.execution_time.max(0.0) as u64)
            .sum(),
        from,
        error: last
            .and_then(|run| run.error.as_ref())
            .map(|error| error.text(budget.redactor)),
        output,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_one(count: &usize) -> bool {
    *count == 1
}
