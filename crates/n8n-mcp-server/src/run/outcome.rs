//! The outcome of a run: status, output, error.

use n8n_workflow::trace::{MAX_MESSAGE, ResultData};
use n8n_workflow::{Execution, Id, Status};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use upstream::redact::Redactor;
use upstream::text::truncate;

use super::kept::Kept;
use super::output::OutputSelection;
use super::response::WebhookResponse;
use crate::production_url::{REQUEST_ID, UrlReply};
use crate::start_method::StartMethod;

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
    /// The items that become the output.
    #[serde(skip)]
    items: Option<Vec<Box<RawValue>>>,
    /// The webhook's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<WebhookResponse>,
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
    Unknown,
}

/// The error of the workflow.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct RunError {
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    message: String,
}

const NOT_KEPT: &str = "n8n keeps no execution of this run (the workflow's settings)";
const MISSING: &str = "n8n shows no execution of this run, although the workflow's settings do not \
    prevent that. A proxy or login page in front of n8n may have replied, or this n8n saves none. Check \
    the workflow's executions in n8n before you run it again.";

const PAGE: &str = "An HTML page replied, and n8n keeps no execution of this run (the workflow's settings): it may \
    be the workflow's answer, or a login page in front of n8n, and then nothing ran. `response` shows it.";
const GONE: &str = "n8n has deleted this execution since, so its outcome is not known.";
const ONLY_REQUEST: &str = "The last node put out the request itself; `response` has the answer.";

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
            RunStatus::Completed => match result.last_items(execution.workflow_data.as_deref()) {
                Some(items) => {
                    run.items = Some(items);
                    let others = result.other_ends();
                    if !others.is_empty() {
                        let note = format!(
                            "Other branches ended at: {}. get_execution with view `full` shows their output.",
                            others.join(", ")
                        );
                        return run.with_note(note);
                    }
                }
                None => run.note = Some("n8n keeps no output of this execution.".into()),
            },
            RunStatus::Failed => {
                let (node, message) = result.failure();
                return run.with_error(node, message);
            }
            RunStatus::Waiting => {
                let note = "It waits, and continues by itself or when somebody resumes it: \
                    resume_execution (toolset executions).";
                return run.with_note(note);
            }
            RunStatus::Canceled => {
                if let Some(message) = result.timeout() {
                    let message = message.to_owned();
                    return run.with_error(None, message);
                }
            }
            RunStatus::Running | RunStatus::Unknown => {}
        }
        run
    }

    /// A run whose status is not known.
    pub(crate) fn running(id: Option<&Id>) -> Self {
        Self::new(RunStatus::Running, id)
    }

    /// The outcome of a run whose execution n8n has deleted.
    pub(super) fn gone(id: &Id) -> Self {
        Self::new(RunStatus::Unknown, Some(id)).with_note(GONE)
    }

    /// The outcome of a run without an execution, from the `reply` at its end, if there was one.
    pub(super) fn from_reply(id: Option<&Id>, reply: Option<&UrlReply>, kept: Kept) -> Self {
        let succeeded = reply.map(|reply| !reply.status.is_server_error());
        // An execution that was found and is gone was deleted by n8n.
        let is_missing = id.is_none()
            && match succeeded {
                Some(true) => kept.successes,
                Some(false) => kept.failures,
                None => kept.successes && kept.failures,
            };
        if is_missing {
            return Self::new(RunStatus::Unknown, id).with_note(MISSING);
        }
        let Some(reply) = reply else {
            let note = format!("{NOT_KEPT}, so its outcome is not known.");
            return Self::new(RunStatus::Unknown, id).with_note(note);
        };
        if succeeded == Some(true) && reply.is_page() {
            return Self::new(RunStatus::Unknown, id).with_note(PAGE);
        }
        let run = if succeeded == Some(true) {
            let mut run = Self::new(RunStatus::Completed, id);
            run.items = Some(vec![reply.as_json()]);
            run
        } else {
            let error = format!("The trigger replied with HTTP {}.", reply.status.as_u16());
            Self::new(RunStatus::Failed, id).with_error(None, error)
        };
        run.with_note(format!("{NOT_KEPT}; this is the reply of its trigger."))
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.status, RunStatus::Completed | RunStatus::Failed)
    }

    fn new(status: RunStatus, id: Option<&Id>) -> Self {
        Self {
            execution_id: id.map(Id::to_string),
            status,
            ..Self::default()
        }
    }

    /// The run as it is shown: its output redacted, selected and truncated.
    pub(crate) fn shown(mut self, redactor: &Redactor, selection: &OutputSelection) -> Self {
        if let Some(items) = self.items.take() {
            let (output, note) = selection.apply(items, redactor);
            // The schema does not allow null.
            self.output = Some(output).filter(|output| output.get() != "null");
            if let Some(note) = note {
                self = self.with_note(note);
            }
        }
        if let Some(error) = &mut self.error {
            error.message = truncate(&redactor.text(&error.message), MAX_MESSAGE);
        }
        let output = self.output.as_deref();
        self.response = self.response.map(|response| response.without(output));
        self
    }

    /// Adds the webhook's answer. The output of a node that answers at the end is the request itself,
    /// and is left out.
    pub(super) fn with_response(
        mut self,
        reply: &UrlReply,
        is_at_end: bool,
        redactor: &Redactor,
    ) -> Self {
        let response = WebhookResponse::new(reply, redactor);
        let mut items = self.items.iter().flatten();
        let has_request = items.any(|item| item.get().contains(REQUEST_ID));
        let is_answered = is_at_end && response.has_body();
        self.response = Some(response);
        if is_answered && has_request {
            self.items = None;
            self = self.with_note(ONLY_REQUEST);
        }
        self
    }

    /// Removes the output, if it is shown in another form.
    pub(crate) fn drop_output(&mut self) {
        (self.output, self.note) = (None, None);
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
        let run = Run::from_execution(serde_json::from_value(execution).unwrap());
        let shown = run.shown(&Redactor::new(true), &OutputSelection::default());
        serde_json::to_value(shown).unwrap()
    }

    fn items(items: Value) -> Value {
        json!({"lastNodeExecuted": "B", "runData": {
            "A": [{"data": {"main": [[{"json": {"not": "this"}}]]}}],
            "B": [{"data": {"main": [[{"json": {"not": "this"}}]]}, "source": [{"previousNode": "A"}]},
                {"data": {"main": items}}],
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
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let long = format!("{} {token} {}", "x ".repeat(490), "y ".repeat(99));
        let long = run("error", json!({"error": {"message": long}})).to_string();
        assert!(
            long.contains("***") && !long.contains("ghp_") && long.len() < 1_200,
            "{long}"
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
