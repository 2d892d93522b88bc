//! Parses the parts of an execution's `data` that are shown.

use std::collections::{HashMap, HashSet};

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use upstream::redact::Redactor;
use upstream::text::truncate;

use crate::Workflow;
use crate::node_type::last_part;

/// The message of an error that has none.
const NO_REASON: &str = "n8n does not say why.";
/// n8n's words for an execution that took longer than its workflow may.
const TIMED_OUT: &str = "cancelled because it timed out";
/// Characters of a message that are shown: some messages of nodes hold whole documents.
pub const MAX_MESSAGE: usize = 1_000;

/// The result of an execution, of which only the needed nodes are parsed.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResultData {
    /// By the name of the node; unparsed, because they can be very large and often only that of the
    /// last node is needed.
    pub(super) run_data: HashMap<String, Box<RawValue>>,
    pub(super) last_node_executed: Option<String>,
    #[serde(deserialize_with = "lenient")]
    error: Option<NodeError>,
}

/// The runs of nodes of one execution, in the order in which they ran.
#[derive(Default)]
pub struct Trace {
    pub(super) nodes: Vec<(String, Vec<NodeRun>)>,
    pub(super) last: Option<String>,
    pub(super) error: Option<NodeError>,
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
    #[serde(deserialize_with = "lenient")]
    pub(super) source: Vec<Option<InputSource>>,
    /// By kind of connection, then by output.
    pub(super) data: Option<HashMap<String, Vec<Option<Vec<NodeItem>>>>>,
    #[serde(deserialize_with = "lenient")]
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
    /// Files, by name of the field; their bytes are elsewhere or left out.
    pub(super) binary: Option<HashMap<String, BinaryFile>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BinaryFile {
    pub(super) file_name: Option<String>,
    pub(super) mime_type: Option<String>,
    pub(super) file_size: Option<Value>,
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

impl ResultData {
    /// Reads `data` of an execution; empty if that is not possible: the execution's status is
    /// still valid.
    pub fn read(raw: Option<&RawValue>) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Data {
            result_data: ResultData,
        }
        let data = raw.map(|raw| serde_json::from_str::<Data>(raw.get()));
        let data = data.transpose().unwrap_or_else(|error| {
            tracing::warn!(%error, "the data of an execution has an unexpected shape");
            None
        });
        data.unwrap_or_default().result_data
    }

    /// The items that the last node put out in its last run, over all of its outputs; `workflow` is the
    /// definition that ran.
    pub fn last_items(&self, workflow: Option<&RawValue>) -> Option<Vec<Box<RawValue>>> {
        let last = self.last_node_executed.as_ref()?;
        let mut last = self.runs(last)?.pop()?;
        let outputs = last.data.as_mut().and_then(|kinds| kinds.remove("main"));
        let outputs = outputs.into_iter().flatten();
        let shown = if self.ends_with_filter(workflow) {
            1
        } else {
            usize::MAX
        };
        let items = outputs.take(shown).flatten().flatten();
        Some(items.map(NodeItem::shown).collect())
    }

    /// The node that ran last, or waits.
    pub fn last(self) -> Option<String> {
        self.last_node_executed
    }

    /// The node that failed, and its message, which is neither redacted nor truncated.
    pub fn failure(&self) -> (Option<String>, String) {
        let error = self.error.as_ref();
        let node = error.and_then(|error| error.node_name().map(str::to_owned));
        let node = node.or_else(|| self.last_node_executed.clone());
        let message = error.and_then(|error| error.message.as_deref().map(without_stack));
        (node, message.unwrap_or(NO_REASON).to_owned())
    }

    /// The message of an execution that n8n canceled at the timeout of its workflow.
    pub fn timeout(&self) -> Option<&str> {
        self.error.as_ref()?.timeout()
    }

    fn runs(&self, node: &str) -> Option<Vec<NodeRun>> {
        serde_json::from_str(self.run_data.get(node)?.get()).ok()
    }
}

impl Trace {
    /// True for an execution that n8n canceled at the timeout of its workflow.
    pub fn is_timed_out(&self) -> bool {
        self.error.as_ref().and_then(NodeError::timeout).is_some()
    }

    /// Reads `data` of an execution, as far as it can be read.
    pub fn read(raw: Option<&RawValue>) -> Self {
        let data = ResultData::read(raw);
        let names = data.run_data.keys();
        let runs = names.filter_map(|name| Some((name.clone(), data.runs(name)?)));
        let mut nodes: Vec<_> = runs.collect();
        let order = |runs: &[NodeRun]| {
            let first = runs.first();
            let start = first.map_or(f64::MAX, |run| run.start_time);
            let index = first.and_then(|run| run.execution_index);
            (start, index.unwrap_or(u32::MAX))
        };
        nodes.sort_by(|(a_name, a), (b_name, b)| {
            let ((a_start, a_index), (b_start, b_index)) = (order(a), order(b));
            let by_start = a_start.total_cmp(&b_start);
            by_start
                .then(a_index.cmp(&b_index))
                .then_with(|| a_name.cmp(b_name))
        });
        Self {
            error: data.error,
            last: data.last_node_executed,
            nodes,
        }
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

    pub(super) fn output(&self, index: usize) -> &[NodeItem] {
        let outputs = self.data.as_ref().and_then(|kinds| kinds.get("main"));
        let items = outputs.and_then(|outputs| outputs.get(index)?.as_deref());
        items.unwrap_or_default()
    }
}

impl NodeError {
    /// The name of the node, if the error has one.
    pub(super) fn node_name(&self) -> Option<&str> {
        let node = self.node.as_ref()?;
        node.get("name").unwrap_or(node).as_str()
    }

    /// The message if n8n has canceled the execution at the timeout of its workflow.
    fn timeout(&self) -> Option<&str> {
        let message = self.message.as_deref().map(without_stack);
        message.filter(|message| message.contains(TIMED_OUT))
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

/// Reads a value that is only for explanation; the default if it has an unexpected form.
fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + DeserializeOwned,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// A message without its stack, which names files of the service: some nodes put it into the
/// message.
pub(super) fn without_stack(message: &str) -> &str {
    let end = message.find("\n    at ").unwrap_or(message.len());
    &message[..end]
}

/// One run of a node, without its items.
#[derive(Deserialize)]
struct Passed {
    #[serde(default)]
    source: Vec<Option<InputSource>>,
    data: Option<HashMap<String, Vec<Option<Vec<IgnoredAny>>>>>,
}

impl ResultData {
    /// The nodes besides the last whose items no other node took.
    pub fn other_ends(&self) -> Vec<String> {
        let (mut ends, mut taken) = (Vec::new(), HashSet::new());
        for (name, runs) in &self.run_data {
            let runs: Vec<Passed> = serde_json::from_str(runs.get()).unwrap_or_default();
            let outputs = runs.iter().filter_map(|run| run.data.as_ref()?.get("main"));
            let mut outputs = outputs.flatten().flatten();
            if outputs.any(|items| !items.is_empty())
                && Some(name) != self.last_node_executed.as_ref()
            {
                ends.push(name.clone());
            }
            let sources = runs.into_iter().flat_map(|run| run.source).flatten();
            taken.extend(sources.map(|source| source.previous_node));
        }
        ends.retain(|name| !taken.contains(name));
        ends.sort_unstable();
        ends
    }

    /// True if the last node is a filter: its second output are the items that it leaves out.
    pub(super) fn ends_with_filter(&self, workflow: Option<&RawValue>) -> bool {
        let workflow = workflow.and_then(|raw| serde_json::from_str::<Workflow>(raw.get()).ok());
        let nodes = workflow.into_iter().flat_map(|workflow| workflow.nodes);
        let mut last = nodes.filter(|node| Some(&node.name) == self.last_node_executed.as_ref());
        last.next()
            .is_some_and(|node| last_part(&node.kind) == "filter")
    }
}
