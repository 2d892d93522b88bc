//! Finds the node that failed, with its input and its error.

use std::sync::LazyLock;

use regex::Regex;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use upstream::redact::Redactor;
use upstream::text::truncate;

use super::data::{MAX_MESSAGE, NodeError, NodeItem, NodeRun, Trace, without_stack};
use super::items::ItemBudget;
use crate::expressions::visit_texts;
use crate::workflow::{Node, Workflow};

/// Items of the input that are shown.
const MAX_INPUT_ITEMS: usize = 3;
/// Characters of the source of a failure.
const MAX_SOURCE: usize = 300;

/// A failed node.
#[derive(Default, Serialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "documentation of a member would become a part of a tool's schema"
)]
pub struct NodeFailure {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub message: String,
    /// n8n's text on the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The status of a service's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// n8n's name of the kind of error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The line of its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The wrong parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// The line of code, the expression or the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Items for which it failed, if the workflow went on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handled: Option<usize>,
    /// The failed item, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u64>,
    /// The nodes that its input came from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input_from: Vec<String>,
    /// Items of its input, in all.
    pub input_items: usize,
    /// The failed one, or the first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input: Vec<Map<String, Value>>,
    /// The node that used it, such as the agent of a model, or that started its workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_by: Option<String>,
}

/// The failure of an execution; `None` if n8n saved no error.
pub fn find_failure(trace: &Trace, redactor: &Redactor) -> Option<NodeFailure> {
    let (node, error) = match &trace.error {
        Some(error) => {
            // The error of a sub-workflow has the name of its own node.
            let named = error.node_name().map(str::to_owned);
            let ran = named.clone().filter(|node| trace.has(node));
            let node = ran.or_else(|| trace.last.clone()).or(named);
            (node, error.clone())
        }
        None => trace.nodes.iter().rev().find_map(|(name, runs)| {
            let error = runs.last()?.error.clone()?;
            Some((Some(name.clone()), error))
        })?,
    };
    // The error of an agent is that of its model or tool.
    let sub_node = node
        .as_deref()
        .and_then(|node| failed_sub_node(trace, node));
    let (node, error, used_by) = match sub_node {
        Some((name, error)) => (Some(name), error, node),
        None => (node, error, None),
    };
    let run = node.as_deref().and_then(|node| trace.runs(node)?.last());
    let source = run.filter(|run| is_sub_node(run)).and_then(|run| {
        let mut sources = run.source.iter().flatten();
        Some(sources.next()?.previous_node.clone())
    });
    let used_by = used_by.or(source);
    let number = |value: &Option<Value>| match value {
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_u64(),
        None => None,
    };
    let context = error.context.clone().unwrap_or_default();
    let item = number(&context.item_index);
    let (input_from, input_items, input) = input(trace, run, item, redactor);
    Some(NodeFailure {
        message: error.text(redactor),
        description: description(&error, redactor),
        http_status: number(&error.http_code).and_then(|code| code.try_into().ok()),
        line: number(&error.line_number),
        parameter: context.parameter,
        source: None,
        handled: None,
        item,
        error: error.name,
        node,
        input_from,
        input_items,
        input,
        used_by,
    })
}

impl NodeFailure {
    /// Fills in what failed, from the parameters of the node.
    pub fn find_source(&mut self, node: &Node, redactor: &Redactor) {
        let text = |key: &str| node.parameters.get(key).and_then(Value::as_str);
        let code = ["jsCode", "pythonCode", "functionCode"]
            .into_iter()
            .find_map(text);
        let line = self
            .line
            .and_then(|line| usize::try_from(line).ok()?.checked_sub(1));
        let line = code
            .zip(line)
            .and_then(|(code, line)| code.lines().nth(line));
        let mut expressions = Vec::new();
        let parameters = Value::Object(node.parameters.clone());
        visit_texts(&parameters, "", &mut |path, text| {
            // n8n names the parameter itself, or the one around it.
            let is_it = |parameter: &String| {
                let mut parts = path.split(['.', '[']);
                path.ends_with(parameter.as_str()) || parts.any(|part| part == parameter)
            };
            if text.starts_with('=') && self.parameter.as_ref().is_none_or(is_it) {
                expressions.push(text.to_owned());
            }
        });
        let expression = match expressions.as_slice() {
            [only] if code.is_none() => Some(only.as_str()),
            _ => None,
        };
        let found = line.or(text("url")).or(expression);
        self.source = found.map(|text| truncate(&redactor.text(text.trim()), MAX_SOURCE));
    }
}

/// The last node whose errors the workflow handled.
pub fn find_handled(
    trace: &Trace,
    workflow: &Workflow,
    redactor: &Redactor,
) -> Option<NodeFailure> {
    let error = |item: &NodeItem| {
        let item: Value = serde_json::from_str(item.json.get()).ok()?;
        let error = item.get("error")?;
        error
            .get("message")
            .unwrap_or(error)
            .as_str()
            .map(str::to_owned)
    };
    trace.nodes.iter().rev().find_map(|(name, runs)| {
        let mut nodes = workflow.nodes.iter();
        nodes.find(|node| node.name == *name && node.handles_errors())?;
        let run = runs.last()?;
        let errors: Vec<String> = run.items().filter_map(error).collect();
        let message = redactor.text(without_stack(errors.first()?));
        let (input_from, input_items, input) = input(trace, Some(run), None, redactor);
        Some(NodeFailure {
            node: Some(name.clone()),
            message: truncate(&message, MAX_MESSAGE),
            handled: Some(errors.len()),
            input_from,
            input_items,
            input,
            ..NodeFailure::default()
        })
    })
}

/// The last node that failed while `user` used it through a connection that carries no items.
fn failed_sub_node(trace: &Trace, user: &str) -> Option<(String, NodeError)> {
    trace.nodes.iter().rev().find_map(|(name, runs)| {
        let run = runs.last()?;
        let is_used = run
            .source
            .iter()
            .flatten()
            .any(|it| it.previous_node == user);
        let error = run.error.clone().filter(|_| is_used && is_sub_node(run))?;
        Some((name.clone(), error))
    })
}

/// True for a model or tool, whose connection carries no items.
fn is_sub_node(run: &NodeRun) -> bool {
    let kinds = run.data.as_ref();
    kinds.is_some_and(|kinds| !kinds.is_empty() && !kinds.contains_key("main"))
}

/// The names of the nodes that the input of `run` came from, the number of its items, and the first
/// of them or the failed one.
pub(super) fn input(
    trace: &Trace,
    run: Option<&NodeRun>,
    item: Option<u64>,
    redactor: &Redactor,
) -> (Vec<String>, usize, Vec<Map<String, Value>>) {
    let run = run.filter(|run| !is_sub_node(run));
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
    // The first ones unless the failed one is not among them.
    let item = item.and_then(|item| usize::try_from(item).ok());
    let first = item.filter(|item| (MAX_INPUT_ITEMS..count).contains(item));
    let items = items.into_iter().skip(first.unwrap_or_default());
    let limit = if first.is_some() { 1 } else { MAX_INPUT_ITEMS };
    let shown = ItemBudget::new(redactor).items(items, limit);
    (from, count, shown)
}

fn description(error: &NodeError, redactor: &Redactor) -> Option<String> {
    let text = error.description.as_ref()?.as_str()?.trim();
    let is_new = !text.is_empty() && Some(text) != error.message.as_deref();
    is_new.then(|| {
        let text = redactor.text(&without_tags(text));
        truncate(without_stack(&text), MAX_MESSAGE)
    })
}

/// The words of an HTML text.
fn without_tags(text: &str) -> String {
    static TAG: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("</?[a-z][^<>]*>").ok());
    let Some(tag) = TAG.as_ref().filter(|tag| tag.is_match(text)) else {
        return text.to_owned();
    };
    let words = tag.replace_all(text, " ");
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
