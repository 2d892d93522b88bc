//! `data` of an execution, read as far as it is shown.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The runs of nodes of one execution, in the order in which they ran.
#[derive(Default)]
pub(crate) struct Trace {
    pub(super) nodes: Vec<(String, Vec<NodeRun>)>,
    pub(super) last: Option<String>,
    pub(super) error: Option<NodeError>,
}

/// One run of a node; in a loop there are several.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeRun {
    #[serde(default)]
    start_time: f64,
    #[serde(default)]
    execution_index: Option<u32>,
    /// Milliseconds.
    #[serde(default)]
    pub(super) execution_time: f64,
    #[serde(default)]
    pub(super) execution_status: Option<String>,
    #[serde(default)]
    pub(super) source: Vec<Option<Source>>,
    /// By kind of connection, then by output.
    #[serde(default)]
    pub(super) data: Option<HashMap<String, Vec<Option<Vec<Item>>>>>,
    #[serde(default)]
    pub(super) error: Option<NodeError>,
}

/// Where the input of a run came from.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Source {
    pub(super) previous_node: String,
    #[serde(default)]
    pub(super) previous_node_output: Option<usize>,
    #[serde(default)]
    pub(super) previous_node_run: Option<usize>,
}

#[derive(Deserialize)]
pub(super) struct Item {
    #[serde(default)]
    pub(super) json: Box<RawValue>,
    /// Files, by name of the field; their bytes are elsewhere or left out.
    #[serde(default)]
    pub(super) binary: Option<HashMap<String, Binary>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Binary {
    #[serde(default)]
    pub(super) file_name: Option<String>,
    #[serde(default)]
    pub(super) mime_type: Option<String>,
    #[serde(default)]
    pub(super) file_size: Option<Value>,
}

/// An error as n8n keeps it; its stack is not read.
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
}

impl Trace {
    /// What cannot be read is not there: the status of the execution is still true.
    pub(crate) fn read(raw: Option<&RawValue>) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Data {
            result_data: ResultData,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct ResultData {
            run_data: HashMap<String, Vec<NodeRun>>,
            last_node_executed: Option<String>,
            error: Option<NodeError>,
        }
        let Some(raw) = raw else {
            return Self::default();
        };
        let data: Data = serde_json::from_str(raw.get()).unwrap_or_else(|error| {
            tracing::warn!(%error, "the data of an execution has an unexpected shape");
            Data::default()
        });
        let mut nodes: Vec<_> = data.result_data.run_data.into_iter().collect();
        nodes.sort_by(|(a_name, a), (b_name, b)| {
            let key = |runs: &[NodeRun]| {
                runs.first().map_or((f64::MAX, u32::MAX), |run| {
                    (run.start_time, run.execution_index.unwrap_or(u32::MAX))
                })
            };
            let ((a_start, a_index), (b_start, b_index)) = (key(a), key(b));
            a_start
                .total_cmp(&b_start)
                .then(a_index.cmp(&b_index))
                .then(a_name.cmp(b_name))
        });
        Self {
            nodes,
            last: data.result_data.last_node_executed,
            error: data.result_data.error,
        }
    }

    /// The nodes that ran, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.nodes.iter().map(|(name, _)| name.as_str()).collect()
    }

    pub(crate) fn has(&self, node: &str) -> bool {
        self.runs(node).is_some()
    }

    /// The type of the node that failed, where the error holds the node.
    pub(crate) fn failed_type(&self) -> Option<String> {
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
    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.data
            .iter()
            .flat_map(HashMap::values)
            .flatten()
            .flatten()
            .flatten()
    }

    /// The items of one output.
    pub(super) fn output(&self, index: usize) -> &[Item] {
        let outputs = self.data.as_ref().and_then(|kinds| kinds.get("main"));
        outputs
            .and_then(|outputs| outputs.get(index))
            .and_then(Option::as_deref)
            .unwrap_or_default()
    }
}

impl NodeError {
    /// The name of the node, where the error names one.
    pub(super) fn node_name(&self) -> Option<&str> {
        let node = self.node.as_ref()?;
        node.get("name").unwrap_or(node).as_str()
    }
}
