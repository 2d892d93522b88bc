//! Finds the node that failed, with its input and its error.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use upstream::redact::Redactor;

use super::data::{NodeError, NodeRun, Trace, without_stack};
use super::items::ItemBudget;

/// Items of the input that are shown.
const MAX_INPUT_ITEMS: usize = 3;

/// A failed node.
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct NodeFailure {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    pub(crate) message: String,
    /// n8n's text on the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// The status of a service's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http_status: Option<u16>,
    /// n8n's name of the kind of error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The line of its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
    /// The wrong parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parameter: Option<String>,
    /// The failed item, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) item: Option<u64>,
    /// The nodes that its input came from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) input_from: Vec<String>,
    /// Items of its input, in all.
    pub(crate) input_items: usize,
    /// The first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) input: Vec<Map<String, Value>>,
}

/// The failure of an execution; `None` if n8n saved no error.
pub(crate) fn find_failure(trace: &Trace, redactor: &Redactor) -> Option<NodeFailure> {
    let (node, error) = match &trace.error {
        Some(error) => {
            let node = error.node_name().map(str::to_owned);
            (node.or_else(|| trace.last.clone()), error.clone())
        }
        None => trace.nodes.iter().rev().find_map(|(name, runs)| {
            let error = runs.last()?.error.clone()?;
            Some((Some(name.clone()), error))
        })?,
    };
    let run = node.as_deref().and_then(|node| trace.runs(node)?.last());
    let (input_from, input_items, input) = input(trace, run, redactor);
    let number = |value: &Option<Value>| match value {
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_u64(),
        None => None,
    };
    let context = error.context.clone().unwrap_or_default();
    Some(NodeFailure {
        message: error.text(redactor),
        description: description(&error, redactor),
        http_status: number(&error.http_code).and_then(|code| code.try_into().ok()),
        line: number(&error.line_number),
        parameter: context.parameter,
        item: number(&context.item_index),
        error: error.name,
        node,
        input_from,
        input_items,
        input,
    })
}

fn input(
    trace: &Trace,
    run: Option<&NodeRun>,
    redactor: &Redactor,
) -> (Vec<String>, usize, Vec<Map<String, Value>>) {
    let sources = run.into_iter().flat_map(|run| run.source.iter().flatten());
    let mut from = Vec::new();
    let mut items = Vec::new();
    for source in sources {
        from.push(source.previous_node.clone());
        let runs = trace.runs(&source.previous_node).unwrap_or_default();
        let run = source.previous_node_run.unwrap_or_default();
        let output = source.previous_node_output.unwrap_or_default();
        let before = runs.get(run).or(runs.last());
        items.extend(before.into_iter().flat_map(|run| run.output(output)));
    }
    let count = items.len();
    let shown = ItemBudget::new(redactor).items(items, MAX_INPUT_ITEMS);
    (from, count, shown)
}

fn description(error: &NodeError, redactor: &Redactor) -> Option<String> {
    let text = error.description.as_ref()?.as_str()?.trim();
    let is_new = !text.is_empty() && Some(text) != error.message.as_deref();
    is_new.then(|| without_stack(&redactor.text(text)))
}
