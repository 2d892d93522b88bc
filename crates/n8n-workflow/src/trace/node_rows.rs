//! Renders the nodes of an execution as rows that fit into a conversation.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use upstream::redact::Redactor;

use super::data::{NodeRun, Trace};
use super::items::ItemBudget;

/// The nodes and items to show.
#[derive(Clone, Copy)]
pub struct NodeSelection<'a> {
    /// Only these nodes; all if empty.
    pub nodes: &'a [String],
    /// Items per node.
    pub items: usize,
}

/// Runs of one node.
#[derive(Serialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "documentation of a member would become a part of a tool's schema"
)]
pub struct NodeRow {
    pub node: String,
    status: String,
    /// Absent if it ran once.
    #[serde(skip_serializing_if = "is_one")]
    runs: usize,
    /// Items that it returned in all its runs.
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
pub fn node_rows(
    trace: &Trace,
    selection: NodeSelection<'_>,
    redactor: &Redactor,
) -> (Vec<NodeRow>, bool) {
    let mut budget = ItemBudget::new(redactor);
    let mut nodes: Vec<_> = trace.nodes.iter().collect();
    nodes.retain(|(name, _)| selection.nodes.is_empty() || selection.nodes.contains(name));
    let rows = nodes
        .iter()
        .map(|(name, runs)| row(name, runs, selection.items, &mut budget));
    let rows = rows.collect();
    (rows, budget.is_cut)
}

fn row(name: &str, runs: &[NodeRun], items: usize, budget: &mut ItemBudget<'_>) -> NodeRow {
    let last = runs.last();
    let sources = runs.iter().flat_map(|run| run.source.iter().flatten());
    let mut from: Vec<_> = sources.map(|source| source.previous_node.clone()).collect();
    from.dedup();
    let output = (items > 0).then(|| {
        let all = last.into_iter().flat_map(NodeRun::items);
        budget.items(all, items)
    });
    let status = last.and_then(|run| run.execution_status.clone());
    let error = last.and_then(|run| run.error.as_ref());
    let milliseconds = runs.iter().map(|run| run.execution_time.max(0.0) as u64);
    NodeRow {
        node: name.to_owned(),
        status: status.unwrap_or_else(|| "unknown".to_owned()),
        runs: runs.len(),
        items: runs.iter().map(|run| run.items().count()).sum(),
        milliseconds: milliseconds.sum(),
        from,
        error: error.map(|error| error.text(budget.redactor)),
        output,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_one(count: &usize) -> bool {
    *count == 1
}
