//! The nodes of an execution as rows that fit into a conversation.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::data::{Item, NodeRun, Trace};
use super::failure::message;
use crate::redact::Redactor;

/// The most JSON of items that is shown of one execution, in bytes; about 8,000 tokens.
const MAX_SHOWN: usize = 32 * 1024;
/// What is shown of one text or of one list of an item.
const MAX_TEXT: usize = 2_000;
const MAX_LIST: usize = 100;

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
pub(crate) fn rows(trace: &Trace, detail: Detail<'_>, redactor: Redactor) -> (Vec<NodeRow>, bool) {
    let wanted = |name: &String| detail.nodes.is_empty() || detail.nodes.contains(name);
    let mut shower = Shower::new(redactor);
    let rows = trace
        .nodes
        .iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, runs)| row(name, runs, detail.items, &mut shower))
        .collect();
    (rows, shower.is_cut)
}

fn row(name: &str, runs: &[NodeRun], items: usize, shower: &mut Shower) -> NodeRow {
    let last = runs.last();
    let mut from: Vec<String> = runs
        .iter()
        .flat_map(|run| run.source.iter().flatten())
        .map(|source| source.previous_node.clone())
        .collect();
    from.dedup();
    let output = (items > 0).then(|| {
        let all = last.into_iter().flat_map(NodeRun::items);
        shower.items(all, items)
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
            .map(|error| message(error, shower.redactor)),
        output,
    }
}

/// Turns items into JSON that is redacted and bounded, over a whole answer.
pub(super) struct Shower {
    redactor: Redactor,
    room: usize,
    is_cut: bool,
}

impl Shower {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            room: MAX_SHOWN,
            is_cut: false,
        }
    }

    pub(super) fn items<'a>(
        &mut self,
        items: impl IntoIterator<Item = &'a Item>,
        limit: usize,
    ) -> Vec<Map<String, Value>> {
        let mut shown = Vec::new();
        for item in items {
            if shown.len() == limit {
                self.is_cut = true;
                break;
            }
            let mut value = cut(&json_of(item), &mut self.is_cut);
            self.redactor.value(&mut value);
            let size = value.to_string().len();
            if size > self.room {
                self.is_cut = true;
                break;
            }
            self.room -= size;
            // An item that is no object is a mistake of the node that put it out.
            shown.push(match value {
                Value::Object(members) => members,
                other => Map::from_iter([("json".to_owned(), other)]),
            });
        }
        shown
    }
}

fn json_of(item: &Item) -> Value {
    let mut value: Value = serde_json::from_str(item.json.get()).unwrap_or_default();
    let Some(files) = &item.binary else {
        return value;
    };
    let described = files.iter().map(|(field, file)| {
        let about = json!({"file_name": file.file_name, "mime_type": file.mime_type, "size": file.file_size});
        (field.clone(), about)
    });
    let described: Map<String, Value> = described.collect();
    match &mut value {
        Value::Object(members) => _ = members.insert("$binary".into(), described.into()),
        other => *other = json!({"$binary": described}),
    }
    value
}

fn cut(value: &Value, is_cut: &mut bool) -> Value {
    match value {
        Value::String(long) if long.len() > MAX_TEXT => {
            *is_cut = true;
            let end = long.floor_char_boundary(MAX_TEXT);
            format!("{}… ({} bytes)", &long[..end], long.len()).into()
        }
        Value::Array(all) => {
            *is_cut |= all.len() > MAX_LIST;
            all.iter()
                .take(MAX_LIST)
                .map(|one| cut(one, is_cut))
                .collect()
        }
        Value::Object(all) => {
            let members = all.iter();
            members
                .map(|(key, one)| (key.clone(), cut(one, is_cut)))
                .collect::<Map<_, _>>()
                .into()
        }
        other => other.clone(),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_one(count: &usize) -> bool {
    *count == 1
}
