//! How a run ended, and what came out of it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use upstream::redact::Redactor;

use super::clip::bounded;
use crate::api::{Execution, Status};
use crate::id::Id;
use crate::production_url::Reply;
use crate::trace::ResultData;
use crate::trigger::Way;

/// A run of a workflow.
#[derive(Debug, Default, Serialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RunStatus {
    Completed,
    Failed,
    #[default]
    Running,
    Waiting,
    Canceled,
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
    pub(crate) fn from_execution(execution: Execution) -> Self {
        let mut run = Self::ended(execution.status.into(), Some(&execution.id));
        let result = ResultData::read(execution.data.as_deref());
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

    /// The run as its reply tells it, for one that n8n keeps no execution of; without a `reply` that
    /// tells how it ended, nobody knows.
    pub(super) fn unsaved(id: Option<&Id>, reply: Option<&Reply>) -> Self {
        const NOTE: &str = "n8n keeps no execution of this run (the workflow's settings, or \
                            redaction)";
        let Some(reply) = reply else {
            return Self::running(id).noting(format!("{NOTE}, so its end cannot be seen."));
        };
        let run = if reply.status.is_success() {
            let mut run = Self::ended(RunStatus::Completed, id);
            run.put_output(vec![reply.as_json()]);
            run
        } else {
            let error = format!("The trigger replied with HTTP {}.", reply.status.as_u16());
            Self::ended(RunStatus::Failed, id).failing(None, error)
        };
        run.noting(format!("{NOTE}; this is what its trigger replied."))
    }

    fn ended(status: RunStatus, id: Option<&Id>) -> Self {
        Self {
            execution_id: id.map(Id::to_string),
            status,
            ..Self::default()
        }
    }

    /// The same with its secrets hidden.
    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        self.output = self.output.map(|output| redactor.raw_json(output));
        if let Some(error) = &mut self.error {
            error.message = redactor.text(&error.message);
        }
        self
    }

    /// Leaves the output out, where it is shown in another way.
    pub(crate) fn drop_output(&mut self) {
        (self.output, self.note) = (None, None);
    }

    fn put_output(&mut self, items: Vec<Box<RawValue>>) {
        let (output, note) = bounded(items);
        // No output is absent, as the schema says.
        self.output = Some(output).filter(|output| output.get() != "null");
        self.note = note;
    }

    fn failing(mut self, node: Option<String>, message: String) -> Self {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn run(status: &str, result_data: Value) -> Value {
        let execution = json!({"id": "7", "status": status, "data": {"resultData": result_data}});
        serde_json::to_value(Run::from_execution(
            serde_json::from_value(execution).unwrap(),
        ))
        .unwrap()
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
