//! How a run ended, and what came out of it.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::clip::bounded;
use crate::api::{Execution, Status};
use crate::id::Id;
use crate::redact::Redactor;

/// Messages of failed nodes are cut here; some hold whole documents.
const MAX_MESSAGE: usize = 1_000;

/// A run of a workflow.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Run {
    /// The execution in n8n; absent where n8n keeps none.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<String>,
    status: RunStatus,
    /// Output of the last node: an item, or an array of several.
    #[schemars(extend("not" = {"type": "null"}))]
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RunError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// The trigger that was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<String>,
    /// How it was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    way: Option<Way>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RunStatus {
    Completed,
    Failed,
    Running,
    Waiting,
    Canceled,
}

/// How a run was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    Webhook,
    Chat,
    Form,
    McpProduction,
    McpManual,
    McpTest,
}

/// What went wrong in the workflow.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct RunError {
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    message: String,
}

impl From<Status> for RunStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::New | Status::Running => Self::Running,
            Status::Waiting => Self::Waiting,
            Status::Success => Self::Completed,
            Status::Canceled => Self::Canceled,
            Status::Error | Status::Crashed | Status::Unknown => Self::Failed,
        }
    }
}

impl Run {
    /// The run that an execution is.
    pub(crate) fn of(execution: Execution) -> Self {
        let mut run = Self::ended(execution.status.into(), Some(&execution.id));
        let result = execution
            .data
            .as_deref()
            .map(Data::read)
            .unwrap_or_default();
        match run.status {
            RunStatus::Completed if execution.data_too_large_to_display => {
                run.note = Some("The output is too large for n8n to hand out.".into());
            }
            RunStatus::Completed => match result.last_items() {
                Some(items) => run.put_output(items),
                None => run.note = Some("n8n keeps no output of this execution.".into()),
            },
            RunStatus::Failed => {
                let (node, message) = result.failure();
                return run.failing(node, message);
            }
            RunStatus::Waiting => {
                run.note =
                    Some("It waits, and goes on by itself or when somebody resumes it.".into());
            }
            RunStatus::Running | RunStatus::Canceled => {}
        }
        run
    }

    /// A run of which nothing but its id is known.
    pub(crate) fn running(id: Option<&Id>) -> Self {
        Self::ended(RunStatus::Running, id)
    }

    pub(super) fn ended(status: RunStatus, id: Option<&Id>) -> Self {
        Self {
            execution_id: id.map(Id::to_string),
            status,
            output: None,
            error: None,
            note: None,
            trigger: None,
            way: None,
        }
    }

    /// The same with its secrets hidden.
    pub(crate) fn redacted(mut self, redactor: Redactor) -> Self {
        self.output = self.output.map(|output| redactor.raw(output));
        if let Some(error) = &mut self.error {
            error.message = redactor.text(&error.message).into_owned();
        }
        self
    }

    /// Leaves the output out, where it is shown in another way.
    pub(crate) fn drop_output(&mut self) {
        (self.output, self.note) = (None, None);
    }

    pub(super) fn put_output(&mut self, items: Vec<Box<RawValue>>) {
        let (output, note) = bounded(items);
        // No output is absent, as the schema says.
        self.output = Some(output).filter(|output| output.get() != "null");
        self.note = note;
    }

    pub(super) fn failing(mut self, node: Option<String>, message: String) -> Self {
        self.error = Some(RunError { node, message });
        self
    }

    pub(crate) fn noting(mut self, note: impl Into<String>) -> Self {
        let note = note.into();
        self.note = Some(match self.note {
            Some(before) => format!("{before} {note}"),
            None => note,
        });
        self
    }

    pub(super) fn started_by(mut self, way: Way, trigger: String) -> Self {
        (self.way, self.trigger) = (Some(way), Some(trigger));
        self
    }
}

/// `data` of an execution.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Data {
    result_data: ResultData,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResultData {
    last_node_executed: Option<String>,
    /// By name of the node; only the last one's is read.
    run_data: HashMap<String, Box<RawValue>>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct NodeRun {
    #[serde(default)]
    data: Ports,
}

#[derive(Default, Deserialize)]
struct Ports {
    #[serde(default)]
    main: Vec<Option<Vec<Item>>>,
}

#[derive(Deserialize)]
struct Item {
    json: Box<RawValue>,
}

impl Data {
    /// What cannot be read is not there: the status of the execution is still true.
    fn read(raw: &RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_else(|error| {
            tracing::warn!(%error, "the data of an execution has an unexpected shape");
            Self::default()
        })
    }

    /// What the last node put out in its last run, over all of its outputs.
    fn last_items(&self) -> Option<Vec<Box<RawValue>>> {
        let last = self.result_data.last_node_executed.as_ref()?;
        let runs = self.result_data.run_data.get(last)?;
        let runs: Vec<NodeRun> = serde_json::from_str(runs.get()).ok()?;
        let ports = runs.into_iter().next_back()?.data.main;
        Some(
            ports
                .into_iter()
                .flatten()
                .flatten()
                .map(|item| item.json)
                .collect(),
        )
    }

    /// The node that failed, and its message.
    fn failure(&self) -> (Option<String>, String) {
        let error = self.result_data.error.as_ref();
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let node = error.and_then(|error| error.get("node"));
        let node = text(node.and_then(|node| node.get("name")).or(node));
        let message = text(error.and_then(|error| error.get("message")));
        let message = message.map(|message| without_stack(&message));
        (
            node.or_else(|| self.result_data.last_node_executed.clone()),
            message.unwrap_or_else(|| "n8n does not say why.".to_owned()),
        )
    }
}

/// Stacks name paths of the service, and some nodes put theirs into the message.
fn without_stack(message: &str) -> String {
    let end = message.find("\n    at ").unwrap_or(message.len());
    let mut kept: String = message[..end].chars().take(MAX_MESSAGE).collect();
    if kept.len() < end {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(status: &str, result_data: Value) -> Value {
        let execution = json!({"id": "7", "status": status, "data": {"resultData": result_data}});
        serde_json::to_value(Run::of(serde_json::from_value(execution).unwrap())).unwrap()
    }

    fn items(items: Value) -> Value {
        json!({"lastNodeExecuted": "B", "runData": {
            "A": [{"data": {"main": [[{"json": {"not": "this"}}]]}}],
            "B": [{"data": {"main": [[{"json": {"not": "this"}}]]}}, {"data": {"main": items}}],
        }})
    }

    #[test]
    fn the_output_is_what_the_last_node_put_out() {
        let one = run(
            "success",
            items(json!([[{"json": {"result": "Hello, World!"}}]])),
        );
        let expected = json!({"execution_id": "7", "status": "completed", "output": {"result": "Hello, World!"}});
        assert_eq!(one, expected);
        let several = run(
            "success",
            items(json!([null, [{"json": {"a": 1}}], [{"json": {"b": 1.50}}]])),
        );
        assert_eq!(several["output"], json!([{"a": 1}, {"b": 1.5}]));
        assert_eq!(run("success", items(json!([[]])))["output"], json!([]));
        assert!(run("success", json!({}))["note"].is_string());
    }

    #[test]
    fn a_failure_names_the_node_without_a_stack() {
        let error = json!({"error": {"message": "boom\n    at x (/srv/n8n/a.js:1)", "node": {"name": "Stop"}, "stack": "…"}});
        assert_eq!(
            run("error", error),
            json!({"execution_id": "7", "status": "failed", "error": {"node": "Stop", "message": "boom"}})
        );
        let bare = run("crashed", json!({"lastNodeExecuted": "B"}));
        assert_eq!(bare["error"]["node"], "B");
    }

    #[test]
    fn every_state_of_n8n_is_one_of_ours() {
        for (theirs, ours) in [
            ("new", "running"),
            ("running", "running"),
            ("waiting", "waiting"),
            ("canceled", "canceled"),
            ("unknown", "failed"),
            ("something new", "failed"),
        ] {
            assert_eq!(run(theirs, json!({}))["status"], ours);
        }
    }
}
