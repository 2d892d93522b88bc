//! The outcome of a run: status, output, error.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use upstream::redact::Redactor;

use super::output::truncate_items;
use crate::api::{Execution, Status};
use crate::id::Id;
use crate::production_url::UrlReply;
use crate::trace::ResultData;
use crate::trigger::StartMethod;

/// A run of a workflow.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Run {
    /// The execution in n8n; absent if n8n saves none.
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
    /// Start method.
    #[serde(skip_serializing_if = "Option::is_none")]
    way: Option<StartMethod>,
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

/// The error of the workflow.
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
    pub(crate) fn from_execution(execution: Execution) -> Self {
        let mut run = Self::new(execution.status.into(), Some(&execution.id));
        let result = ResultData::read(execution.data.as_deref());
        match run.status {
            RunStatus::Completed if execution.data_too_large_to_display => {
                run.note = Some("The output is too large for n8n to return.".into());
            }
            RunStatus::Completed => match result.last_items() {
                Some(items) => run.set_output(items),
                None => run.note = Some("n8n keeps no output of this execution.".into()),
            },
            RunStatus::Failed => {
                let (node, message) = result.failure();
                return run.with_error(node, message);
            }
            RunStatus::Waiting => {
                let note = "It waits, and continues by itself or when a person resumes it.";
                return run.with_note(note);
            }
            RunStatus::Running | RunStatus::Canceled => {}
        }
        run
    }

    /// A run whose status is not known.
    pub(crate) fn running(id: Option<&Id>) -> Self {
        Self::new(RunStatus::Running, id)
    }

    /// The outcome of a run whose execution n8n does not save. Without a `reply` from its end the
    /// outcome is unknown.
    pub(super) fn from_reply(id: Option<&Id>, reply: Option<&UrlReply>) -> Self {
        const NOTE: &str = "n8n keeps no execution of this run (the workflow's settings, or \
                            redaction)";
        let Some(reply) = reply else {
            return Self::running(id).with_note(format!("{NOTE}, so its outcome is not known."));
        };
        let run = if reply.status.is_success() {
            let mut run = Self::new(RunStatus::Completed, id);
            run.set_output(vec![reply.as_json()]);
            run
        } else {
            let error = format!("The trigger replied with HTTP {}.", reply.status.as_u16());
            Self::new(RunStatus::Failed, id).with_error(None, error)
        };
        run.with_note(format!("{NOTE}; this is the reply of its trigger."))
    }

    fn new(status: RunStatus, id: Option<&Id>) -> Self {
        Self {
            execution_id: id.map(Id::to_string),
            status,
            ..Self::default()
        }
    }

    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        self.output = self.output.map(|output| redactor.raw_json(output));
        if let Some(error) = &mut self.error {
            error.message = redactor.text(&error.message);
        }
        self
    }

    /// Removes the output, if it is shown in another form.
    pub(crate) fn drop_output(&mut self) {
        (self.output, self.note) = (None, None);
    }

    fn set_output(&mut self, items: Vec<Box<RawValue>>) {
        let (output, note) = truncate_items(items);
        // The schema does not allow null.
        self.output = Some(output).filter(|output| output.get() != "null");
        self.note = note;
    }

    fn with_error(mut self, node: Option<String>, message: String) -> Self {
        self.error = Some(RunError { node, message });
        self
    }

    pub(crate) fn with_note(mut self, note: impl Into<String>) -> Self {
        let note = note.into();
        self.note = Some(match self.note {
            Some(before) => format!("{before} {note}"),
            None => note,
        });
        self
    }

    pub(super) fn started_by(mut self, way: StartMethod, trigger: String) -> Self {
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
    fn the_output_is_that_of_the_last_node() {
        let one = run("success", items(json!([[{"json": {"result": "Hello!"}}]])));
        let expected =
            json!({"execution_id": "7", "status": "completed", "output": {"result": "Hello!"}});
        assert_eq!(one, expected);
        let several = items(json!([null, [{"json": {"a": 1}}], [{"json": {"b": 1.50}}]]));
        let several = run("success", several);
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
    fn every_status_of_n8n_is_mapped() {
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
