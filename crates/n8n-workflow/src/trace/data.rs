//! Parses the parts of an execution's `data` that are shown: the rows of its nodes, their items, redacted and
//! shortened to fit into a conversation, and files.

use std::collections::{BTreeMap, HashMap, HashSet};

use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;
use upstream::redact::{Redactor, json_cause};
use upstream::text::truncate;

use crate::Workflow;
use crate::connections::{MAIN, parse_connections};
use crate::workflow::or_default;

/// The message of an error that has none.
const NO_REASON: &str = "n8n does not say why.";
/// n8n's words for an execution that took longer than its workflow may.
const TIMED_OUT: &str = "cancelled because it timed out";
/// Characters of a message that are shown: some messages of nodes hold whole documents.
pub const MAX_MESSAGE: usize = 1_000;

/// The runs of nodes of one execution, in the order in which they ran.
#[derive(Default)]
pub struct Trace {
    pub(super) nodes: Vec<(String, Vec<NodeRun>)>,
    pub(super) last: Option<String>,
    pub(super) error: Option<NodeError>,
    /// The nodes of which n8n took the pinned data and did not run them, and the trigger, if it is given its data.
    pub pinned: Vec<String>,
    /// The reason for which a part of the data cannot be read.
    pub unreadable: Option<String>,
}

/// One run of a node; in a loop there are several.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeRun {
    start_time: f64,
    execution_index: Option<u32>,
    /// Milliseconds.
    pub(super) execution_time: f64,
    pub(super) execution_status: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) source: Vec<Option<InputSource>>,
    /// By kind of connection, then by output.
    pub(super) data: Option<HashMap<String, Vec<Option<Vec<NodeItem>>>>>,
    #[serde(deserialize_with = "or_default")]
    pub(super) error: Option<NodeError>,
}

/// The run that the input of another came from.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputSource {
    pub(super) previous_node: String,
    pub(super) previous_node_output: Option<usize>,
    pub(super) previous_node_run: Option<usize>,
}

#[derive(Deserialize)]
pub(super) struct NodeItem {
    #[serde(default)]
    pub(super) json: Box<RawValue>,
    /// Files, by name of the field.
    pub(super) binary: Option<BTreeMap<String, StoredFile>>,
}

/// An error as n8n saves it, without its stack.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeError {
    pub(super) name: Option<String>,
    pub(super) message: Option<String>,
    pub(super) description: Option<Value>,
    pub(super) http_code: Option<Value>,
    pub(super) line_number: Option<Value>,
    pub(super) context: Option<ErrorContext>,
    pub(super) node: Option<Value>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ErrorContext {
    pub(super) item_index: Option<Value>,
    pub(super) parameter: Option<String>,
    /// The node that an expression names.
    pub(super) node_cause: Option<String>,
}

impl Trace {
    /// Reads `data` of an execution as far as that is possible: the execution's status is valid without it.
    pub fn read(raw: Option<&RawValue>) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Data {
            result_data: ResultData,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct ResultData {
            run_data: HashMap<String, Box<RawValue>>,
            last_node_executed: Option<String>,
            #[serde(deserialize_with = "or_default")]
            pin_data: HashMap<String, IgnoredAny>,
            #[serde(deserialize_with = "or_default")]
            error: Option<NodeError>,
        }
        let mut unreadable = None;
        let data = raw.map(|raw| serde_json::from_str::<Data>(raw.get()));
        let data = data.transpose().unwrap_or_else(|error| {
            unreadable = Some(json_cause(&error));
            None
        });
        let data = data.unwrap_or_default().result_data;
        let mut nodes: Vec<(String, Vec<NodeRun>)> = Vec::new();
        for (name, runs) in data.run_data {
            match serde_json::from_str(runs.get()) {
                Ok(runs) => nodes.push((name, runs)),
                Err(error) => {
                    unreadable = Some(format!("the runs of {name:?}: {}", json_cause(&error)));
                }
            }
        }
        nodes.sort_by(|(a_name, a), (b_name, b)| {
            let [a, b] = [a.first(), b.first()];
            let start = |run: Option<&NodeRun>| run.map_or(f64::MAX, |run| run.start_time);
            let index = |run: Option<&NodeRun>| run.and_then(|run| run.execution_index);
            let by_start = start(a).total_cmp(&start(b));
            let [a, b] = [a, b].map(|run| index(run).unwrap_or(u32::MAX));
            by_start.then((a, a_name).cmp(&(b, b_name)))
        });
        let is_pinned = |(name, _): &&(String, Vec<NodeRun>)| data.pin_data.contains_key(name);
        let pinned = nodes.iter().filter(is_pinned);
        Self {
            error: data.error,
            last: data.last_node_executed,
            pinned: pinned.map(|(name, _)| name.clone()).collect(),
            nodes,
            unreadable,
        }
    }

    /// The items that the last node put out in its last run, over all of its outputs; `workflow` is the
    /// definition that ran.
    pub fn last_items(&self, workflow: Option<&Workflow>) -> Option<Vec<Box<RawValue>>> {
        let name = self.last.as_ref()?;
        let last = self.runs(name)?.last()?;
        let mut nodes = workflow.into_iter().flat_map(|workflow| &workflow.nodes);
        // The second output of a filter are the items that it leaves out.
        let is_filter = nodes.any(|node| node.name() == name && node.short_kind() == "filter");
        let shown = if is_filter { 1 } else { usize::MAX };
        let items = last.outputs().iter().take(shown).flatten().flatten();
        Some(items.map(NodeItem::shown).collect())
    }

    /// The nodes besides the last whose items no other node took.
    pub fn other_ends(&self) -> Vec<&str> {
        let sources = self.nodes.iter().flat_map(|(_, runs)| runs);
        let sources = sources.flat_map(|run| run.source.iter().flatten());
        let taken: HashSet<_> = sources.map(|source| &source.previous_node).collect();
        let is_end = |(name, runs): &&(String, Vec<NodeRun>)| {
            let mut outputs = runs.iter().flat_map(NodeRun::outputs).flatten();
            outputs.any(|items| !items.is_empty())
                && Some(name) != self.last.as_ref()
                && !taken.contains(name)
        };
        let ends = self.nodes.iter().filter(is_end);
        ends.map(|(name, _)| name.as_str()).collect()
    }

    /// The node that ran last, or waits.
    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// The place in the run: the node that ran last, or waits, how often it has run, and when it began. It differs for
    /// each turn of a loop.
    pub fn place(&self) -> Option<(&str, usize, f64)> {
        let name = self.last()?;
        let runs = self.runs(name).unwrap_or_default();
        Some((
            name,
            runs.len(),
            runs.last().map_or(0.0, |run| run.start_time),
        ))
    }

    /// The node that failed, and its message, which is neither redacted nor truncated.
    pub fn failure(&self) -> (Option<String>, String) {
        let error = self.error.as_ref();
        let node = error.and_then(|error| error.node_name().map(str::to_owned));
        let node = node.or_else(|| self.last.clone());
        let message = error.and_then(|error| error.message.as_deref().map(without_stack));
        (node, message.unwrap_or(NO_REASON).to_owned())
    }

    /// The message of an execution that n8n canceled at the timeout of its workflow.
    pub fn timeout(&self) -> Option<&str> {
        let message = self.error.as_ref()?.message.as_deref().map(without_stack);
        message.filter(|message| message.contains(TIMED_OUT))
    }

    /// The names of the nodes that ran.
    pub fn names(&self) -> Vec<&str> {
        self.nodes.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// When the last run of a node began and ended, in milliseconds since 1970.
    pub fn time_of(&self, node: &str) -> Option<(f64, f64)> {
        let run = self.runs(node)?.last()?;
        Some((run.start_time, run.start_time + run.execution_time))
    }

    /// True if the node ran.
    pub fn has(&self, node: &str) -> bool {
        self.runs(node).is_some()
    }

    /// The nodes that put out no items, so that a node behind them never ran.
    pub fn dead_ends(&self, workflow: &Workflow) -> Vec<&str> {
        let all = parse_connections(&workflow.connections).unwrap_or_default();
        let leads_on = |name: &str| {
            let mut all = all
                .iter()
                .filter(|one| one.kind == MAIN && one.from == name);
            all.any(|one| !self.has(&one.to))
        };
        let nodes = self.nodes.iter().filter(|(name, runs)| {
            let has_items = runs.iter().any(|run| run.items().next().is_some());
            !has_items && leads_on(name)
        });
        nodes.map(|(name, _)| name.as_str()).collect()
    }

    /// The type of the node that failed, if the error holds the node.
    pub fn failed_type(&self) -> Option<String> {
        let node = self.error.as_ref()?.node.as_ref()?;
        node.get("type")?.as_str().map(str::to_owned)
    }

    pub(super) fn runs(&self, node: &str) -> Option<&[NodeRun]> {
        let found = self.nodes.iter().find(|(name, _)| name == node);
        found.map(|(_, runs)| runs.as_slice())
    }
}

impl NodeRun {
    /// All items that it put out, over all outputs.
    pub(super) fn items(&self) -> impl Iterator<Item = &NodeItem> {
        let outputs = self.data.iter().flat_map(HashMap::values);
        outputs.flatten().flatten().flatten()
    }

    /// The items that it passed on, by output.
    fn outputs(&self) -> &[Option<Vec<NodeItem>>] {
        let outputs = self.data.as_ref().and_then(|kinds| kinds.get("main"));
        outputs.map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn output(&self, index: usize) -> &[NodeItem] {
        let items = self.outputs().get(index).and_then(Option::as_deref);
        items.unwrap_or_default()
    }
}

impl NodeError {
    pub(super) fn node_name(&self) -> Option<&str> {
        let node = self.node.as_ref()?;
        node.get("name").unwrap_or(node).as_str()
    }

    /// The message, without its stack and without secrets.
    pub(super) fn text(&self, redactor: &Redactor) -> String {
        match self.message.as_deref().map(str::trim) {
            None | Some("") => NO_REASON.to_owned(),
            Some(text) => {
                let cause = self.context.as_ref();
                let cause = cause.and_then(|context| context.node_cause.as_deref());
                let cause = cause.map(|node| format!(": {node}")).unwrap_or_default();
                let text = redactor.text(&format!("{text}{cause}"));
                truncate(without_stack(&text), MAX_MESSAGE)
            }
        }
    }
}

/// A message without its stack, which names files of the service: some nodes put it into the
/// message.
pub(super) fn without_stack(message: &str) -> &str {
    let end = message.find("\n    at ").unwrap_or(message.len());
    &message[..end]
}

/// The most JSON of items that one answer holds, in bytes; about 8,000 tokens.
const MAX_SHOWN: usize = 32 * 1024;
/// Bytes of a text of an item, and elements of a list or members of an object.
const ITEM_LIMITS: (usize, usize) = (2_000, 100);

/// Converts items to JSON, redacted and truncated to the budget of one answer.
pub(super) struct ItemBudget<'a> {
    redactor: &'a Redactor,
    room: usize,
    is_cut: bool,
}

impl<'r> ItemBudget<'r> {
    pub(super) fn new(redactor: &'r Redactor) -> Self {
        Self {
            redactor,
            room: MAX_SHOWN,
            is_cut: false,
        }
    }

    pub(super) fn items<'a>(
        &mut self,
        items: impl IntoIterator<Item = &'a NodeItem>,
        limit: usize,
    ) -> Vec<Map<String, Value>> {
        let mut shown = Vec::new();
        for item in items {
            if shown.len() == limit {
                self.is_cut = true;
                break;
            }
            let mut value = json_of(item);
            drop_error_stack(&mut value);
            // Before a part is left out: the rest of a secret may not look like one.
            self.redactor.json(&mut value);
            let value = shortened(&value, ITEM_LIMITS, &mut self.is_cut);
            let size = value.to_string().len();
            if size > self.room {
                self.is_cut = true;
                break;
            }
            self.room -= size;
            // A correct node puts out only objects.
            shown.push(match value {
                Value::Object(members) => members,
                other => Map::from_iter([("json".to_owned(), other)]),
            });
        }
        shown
    }
}

impl NodeItem {
    /// The JSON byte for byte, or with the files that it has.
    pub(super) fn shown(&self) -> Box<RawValue> {
        let with_files = self.binary.as_ref().map(|_| to_raw_value(&json_of(self)));
        with_files
            .and_then(Result::ok)
            .unwrap_or_else(|| self.json.clone())
    }
}

fn json_of(item: &NodeItem) -> Value {
    let mut value: Value = serde_json::from_str(item.json.get()).unwrap_or_default();
    let Some(files) = &item.binary else {
        return value;
    };
    let described = files.iter().map(|(field, file)| {
        let mut about = json!({"file_name": file.file_name, "mime_type": file.mime_type});
        if let Some(size) = &file.file_size {
            about["size"] = size.clone();
        }
        (field.clone(), about)
    });
    let described: Map<String, Value> = described.collect();
    match &mut value {
        Value::Object(members) => _ = members.insert("$binary".into(), described.into()),
        other => *other = json!({"$binary": described}),
    }
    value
}

/// Takes the stack, which names files of n8n, out of an item, or a list of items, with an error that the workflow
/// handled; true if it had one.
pub fn drop_error_stack(item: &mut Value) -> bool {
    if let Value::Array(items) = item {
        let drop_each = |had, one| drop_error_stack(one) || had;
        return items.iter_mut().fold(false, drop_each);
    }
    let error = item.get_mut("error").and_then(Value::as_object_mut);
    error.is_some_and(|error| {
        let stack = error.get("stack").and_then(Value::as_str);
        let is_stack = stack.is_some_and(|stack| stack.contains("\n    at "));
        is_stack && error.remove("stack").is_some()
    })
}

/// The value with texts of more bytes than the first of these limits truncated, and lists and objects of more
/// elements than the second.
pub fn shortened(value: &Value, limits: (usize, usize), is_cut: &mut bool) -> Value {
    let (text, list) = limits;
    match value {
        Value::String(long) if long.len() > text => {
            *is_cut = true;
            let end = long.floor_char_boundary(text);
            format!("{}… ({} bytes)", &long[..end], long.len()).into()
        }
        Value::Array(all) => {
            *is_cut |= all.len() > list;
            let kept = all.iter().take(list);
            kept.map(|one| shortened(one, limits, is_cut)).collect()
        }
        Value::Object(all) => {
            *is_cut |= all.len() > list;
            let kept = all.iter().take(list);
            kept.map(|(key, one)| (key.clone(), shortened(one, limits, is_cut)))
                .collect::<Map<_, _>>()
                .into()
        }
        other => other.clone(),
    }
}

/// It sums up the runs of one node.
#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
#[expect(missing_docs, reason = "it would become a part of a tool's schema")]
pub struct NodeRow {
    pub node: String,
    status: String,
    /// It is absent if the node ran once.
    #[serde(skip_serializing_if = "is_one")]
    runs: usize,
    /// It put out so many items in all its runs.
    items: usize,
    milliseconds: u64,
    /// Its input came from these nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    from: Vec<String>,
    error: Option<String>,
    /// They are the first items of its last run.
    output: Option<Vec<Map<String, Value>>>,
}

/// The rows of these nodes, or of all if there are none, with so many items of each; and whether items were left out
/// because there are too many or they are too large.
pub fn node_rows(
    trace: &Trace,
    only: &[String],
    items: usize,
    redactor: &Redactor,
) -> (Vec<NodeRow>, bool) {
    let mut budget = ItemBudget::new(redactor);
    let nodes = trace.nodes.iter();
    let nodes = nodes.filter(|(name, _)| only.is_empty() || only.contains(name));
    let rows = nodes.map(|(name, runs)| row(name, runs, items, &mut budget));
    (rows.collect(), budget.is_cut)
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

/// A file that a node put out.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredFile {
    /// Its name, if it has one.
    pub file_name: Option<String>,
    /// Its media type, if that is known.
    pub mime_type: Option<String>,
    /// Its bytes in base64; the name of the store if the execution does not hold them.
    #[serde(default, deserialize_with = "or_default")]
    pub data: String,
    pub(super) file_size: Option<Value>,
    /// Its id in that store.
    pub id: Option<String>,
}

impl Trace {
    /// The file in this `property` of an item of the last run of `node`; by default of the last node, and
    /// the only property.
    ///
    /// # Errors
    /// When there is none, and what there is.
    pub fn file(
        &self,
        node: Option<&str>,
        item: usize,
        property: Option<&str>,
    ) -> Result<StoredFile, String> {
        let node = node.or(self.last()).unwrap_or_default();
        let runs = self.runs(node).ok_or_else(|| {
            let names = self.names().join(", ");
            format!("`node` {node:?} has no output in this execution. Nodes that have: {names}.")
        })?;
        let items: Vec<_> = runs.last().into_iter().flat_map(NodeRun::items).collect();
        let count = items.len();
        let Some(found) = items.get(item) else {
            return Err(format!(
                "`item` {item} does not exist: the last run of {node:?} put out {count} items, counted \
                 from 0."
            ));
        };
        let files: Vec<_> = found.binary.iter().flatten().collect();
        let file = match property {
            Some(property) => files.iter().find(|(name, _)| *name == property),
            None => files.first().filter(|_| files.len() == 1),
        };
        file.map(|(_, file)| (*file).clone()).ok_or_else(|| {
            let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
            match names.as_slice() {
                [] => format!("Item {item} of {node:?} has no file."),
                _ => format!("`property` is one of: {}.", names.join(", ")),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_at_the_place_of_a_cut_are_hidden() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let text = format!("{} {token} {}", "x ".repeat(990), "y ".repeat(99));
        let item = serde_json::from_value(json!({"json": {"text": text}})).unwrap();
        let (redactor, items): (_, [NodeItem; 1]) = (Redactor::new(true), [item]);
        let mut budget = ItemBudget::new(&redactor);
        let shown = json!(budget.items(&items, 1)).to_string();
        assert!(budget.is_cut && shown.contains("***") && !shown.contains("ghp_"));
    }
}
