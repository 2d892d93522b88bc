//! The outcome of a run: its status, and its output, error and answer as they are shown.

use std::collections::BTreeMap;

use n8n_workflow::trace::{MAX_MESSAGE, Trace, drop_error_stack, find_handled, shortened};
use n8n_workflow::trigger::{TriggerKind, WaitsFor, fields_of, schema_of_fields, waits_for};
use n8n_workflow::{Execution, Id, Node, Status, Workflow};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use upstream::redact::Redactor;
use upstream::text::{fitting, head, truncate};

use crate::production_url::{REQUEST_ID, UrlReply};
use crate::start_method::StartMethod;

/// A run of a workflow.
#[skip_serializing_none]
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Run {
    /// n8n has the execution under this id; it is absent if n8n saves none.
    execution_id: Option<String>,
    status: RunStatus,
    /// The last node put this out: an item, or an array of several.
    #[schemars(extend("not" = {"type": "null"}))]
    output: Option<Box<RawValue>>,
    /// The items that become the output.
    #[serde(skip)]
    items: Option<Vec<Box<RawValue>>>,
    /// The webhook gave this answer.
    response: Option<WebhookResponse>,
    error: Option<RunError>,
    note: Option<String>,
    /// This trigger was started.
    trigger: Option<String>,
    /// It was started in this way.
    way: Option<StartMethod>,
    /// This version of the workflow ran.
    version_id: Option<String>,
    waits: Option<Waiting>,
}

/// This node waits.
#[skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
struct Waiting {
    node: Option<String>,
    /// This continues it.
    r#for: &'static str,
    until: Option<String>,
    /// resume_execution takes parameters of this JSON Schema.
    parameters: Option<Map<String, Value>>,
}

/// The run is in this state.
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

/// Whether n8n may keep the executions of a workflow. Without a setting the instance decides, which
/// keeps all unless its operator has changed that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Executions that succeed.
    pub(crate) successes: bool,
    /// Executions that fail.
    pub(crate) failures: bool,
}

impl Kept {
    pub(crate) fn new(workflow: &Workflow) -> Self {
        let keeps = |setting: &str| {
            let setting = workflow.settings.get(setting);
            setting.and_then(Value::as_str) != Some("none")
        };
        Self {
            successes: keeps("saveDataSuccessExecution"),
            failures: keeps("saveDataErrorExecution"),
        }
    }

    /// Whether n8n may keep an execution whose trigger has replied at its end, with success or not;
    /// `None` for a reply from its start.
    pub(crate) fn after_reply(self, succeeded: Option<bool>) -> bool {
        match succeeded {
            Some(true) => self.successes,
            Some(false) | None => self.successes || self.failures,
        }
    }
}

/// The workflow failed with this error.
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
        run.version_id.clone_from(&execution.workflow_version_id);
        let trace = Trace::read(execution.data.as_deref());
        let workflow = execution.workflow();
        if let Some(cause) = &trace.unreadable {
            run = run.with_note(format!(
                "This server cannot read all data of this execution: {cause}."
            ));
        }
        match run.status {
            RunStatus::Completed if execution.data_too_large_to_display => {
                run.with_note("The output is too large for n8n to return.")
            }
            RunStatus::Completed => run.with_output(&trace, workflow.as_ref()),
            RunStatus::Failed => {
                let (node, message) = trace.failure();
                run.with_error(node, message)
            }
            RunStatus::Waiting => {
                let (waits, note) = Waiting::read(&execution, &trace, workflow.as_ref());
                run.waits = Some(waits);
                run.with_note(note)
            }
            RunStatus::Canceled => match trace.timeout() {
                Some(message) => run.with_error(None, message.to_owned()),
                None => run,
            },
            RunStatus::Running | RunStatus::Unknown => run,
        }
    }

    /// Adds the items of the last node, and says what else there is.
    fn with_output(mut self, trace: &Trace, workflow: Option<&Workflow>) -> Self {
        self.items = trace.last_items(workflow);
        if self.items.is_none() {
            return match &trace.unreadable {
                Some(_) => self,
                None => self.with_note("n8n keeps no output of this execution."),
            };
        }
        let is_trigger = |node: &Node| TriggerKind::from_type(node.kind()).is_some();
        let nodes = workflow.into_iter().flat_map(|workflow| &workflow.nodes);
        let names = nodes.filter(|node| !is_trigger(node)).map(Node::name);
        let names = names.filter(|name| trace.pinned.iter().any(|pinned| pinned == *name));
        let names: Vec<_> = names.map(|name| format!("{name:?}")).collect();
        if !names.is_empty() {
            self = self.with_note(format!(
                "Not run: {}; n8n took the data that is pinned there (get_workflow: `pinned`).",
                names.join(", ")
            ));
        }
        let handled = workflow.and_then(|all| find_handled(trace, all, &Redactor::new(true)));
        if let Some(node) = handled.and_then(|failure| failure.node) {
            self = self.with_note(format!(
                "{node:?} failed, and the workflow went on, as its onError says: explain_execution says more."
            ));
        }
        match trace.other_ends() {
            others if others.is_empty() => self,
            others => self.with_note(format!(
                "Other branches ended at: {}. get_execution with view `full` shows their output.",
                others.join(", ")
            )),
        }
    }

    pub(crate) fn running(id: Option<&Id>) -> Self {
        Self::new(RunStatus::Running, id)
    }

    pub(crate) fn gone(id: &Id) -> Self {
        Self::new(RunStatus::Unknown, Some(id)).with_note(GONE)
    }

    /// The outcome of a run without an execution, from the `reply` at its end, if there was one.
    pub(crate) fn from_reply(id: Option<&Id>, reply: Option<&UrlReply>, kept: Kept) -> Self {
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

    pub(crate) fn version(&self) -> Option<&str> {
        self.version_id.as_deref()
    }

    pub(crate) fn has_ended(&self) -> bool {
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
        if let Some(response) = &mut self.response {
            response.show(self.items.as_deref(), redactor, selection);
        }
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
        self
    }

    /// Adds the webhook's answer. The output of a node that only answers is the request itself, and is left out.
    pub(crate) fn with_response(mut self, reply: &UrlReply, is_at_end: bool) -> Self {
        let response = WebhookResponse::new(reply);
        let mut items = self.items.iter().flatten().peekable();
        let is_request = items.peek().is_some() && items.all(|item| is_request(item));
        let is_answered = is_at_end && !reply.body.is_empty();
        self.response = Some(response);
        if is_answered && is_request {
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

    pub(crate) fn started_by(mut self, way: StartMethod, trigger: String) -> Self {
        (self.way, self.trigger) = (Some(way), Some(trigger));
        self
    }
}

impl Waiting {
    /// Describes the wait of the last node of `execution`: for what, and what to do about it.
    fn read(
        execution: &Execution,
        trace: &Trace,
        workflow: Option<&Workflow>,
    ) -> (Self, &'static str) {
        let mut nodes = workflow.into_iter().flat_map(|workflow| &workflow.nodes);
        let found = nodes.find(|node| trace.last() == Some(node.name()));
        let (what, note) = match found.map(waits_for) {
            Some(WaitsFor::Form) => ("form", RESUMED_BY_CALL),
            Some(WaitsFor::Request) => ("request", RESUMED_BY_CALL),
            Some(WaitsFor::Time) => ("time", "It continues by itself at that time."),
            Some(WaitsFor::Person) => (
                "answer",
                "It waits for the answer of a person, whom n8n has sent a link.",
            ),
            None => (
                "unknown",
                "It waits, and continues by itself or when somebody resumes it: resume_execution \
                 (toolset executions).",
            ),
        };
        let fields = found.filter(|_| what == "form").and_then(fields_of);
        let schema = fields.map(|fields| schema_of_fields(&fields));
        let until = execution.wait_till.clone();
        let waits = Self {
            node: trace.last().map(str::to_owned),
            r#for: what,
            until: until.filter(|_| !execution.waits_for_person()),
            parameters: schema.and_then(|schema| schema.as_object().cloned()),
        };
        (waits, note)
    }
}

/// The members of the item that a webhook puts out.
const REQUEST_MEMBERS: [&str; 6] = [
    "headers",
    "params",
    "query",
    "body",
    "webhookUrl",
    "executionMode",
];

/// True for the request of the run as its webhook put it out, with nothing added.
fn is_request(item: &RawValue) -> bool {
    let members: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(item.get()).ok();
    members.is_some_and(|members| {
        let headers = members.get("headers");
        headers.is_some_and(|headers| headers.get().contains(REQUEST_ID))
            && members
                .keys()
                .all(|name| REQUEST_MEMBERS.contains(&&**name))
    })
}

const RESUMED_BY_CALL: &str =
    "It waits until it is resumed: resume_execution (toolset executions).";

/// Bytes of JSON; about 2,000 tokens.
const MAX_OUTPUT: usize = 8 * 1024;
/// Limits for one item that is too large, stricter step by step: (bytes of a text, members of a
/// list).
const TRUNCATION_STEPS: [(usize, usize); 3] = [(2_000, 100), (500, 20), (100, 5)];

#[derive(Clone, Debug, Default)]
pub(crate) struct OutputSelection {
    /// Number of items from the first; all if absent.
    pub(crate) items: Option<u32>,
    /// Members of each item; all if empty.
    pub(crate) fields: Vec<String>,
}

impl OutputSelection {
    /// The selected items with the selected members, redacted and truncated, and a note if something was
    /// left out.
    pub(crate) fn apply(
        &self,
        mut items: Vec<Box<RawValue>>,
        redactor: &Redactor,
    ) -> (Box<RawValue>, Option<String>) {
        let (count, is_one) = (items.len(), items.len() == 1);
        let limit = self.items.map_or(count, |limit| limit as usize);
        items.truncate(limit);
        let mut size = 0;
        let shown = items.into_iter().map(|item| {
            // Whole, as a member or the beginning of a text may not look like a secret. What comes after
            // the bound is not shown.
            let item = match size > MAX_OUTPUT {
                true => item,
                false => redactor.raw_json(without_error_stack(item)),
            };
            let item = self.members(item);
            size += item.get().len();
            item
        });
        let items = shown.collect();
        let (output, note) = truncate_items(items, is_one);
        let chosen = || format!("The first {limit} of {count} items.");
        (output, note.or_else(|| (limit < count).then(chosen)))
    }

    /// Selects a part of an answer: of the elements of a list, or of an object.
    fn of_answer(&self, answer: Box<RawValue>) -> Box<RawValue> {
        let list: Option<Vec<Box<RawValue>>> = serde_json::from_str(answer.get()).ok();
        let Some(list) = list.filter(|_| self.items.is_some() || !self.fields.is_empty()) else {
            return self.members(answer);
        };
        let limit = self.items.map_or(list.len(), |limit| limit as usize);
        let list = list.into_iter().take(limit).map(|item| self.members(item));
        to_raw_value(&list.collect::<Vec<_>>()).unwrap_or(answer)
    }

    fn members(&self, item: Box<RawValue>) -> Box<RawValue> {
        if self.fields.is_empty() {
            return item;
        }
        // Byte for byte, so that numbers stay as they are.
        let members: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(item.get()).ok();
        let chosen = members.map(|mut members| {
            members.retain(|name, _| self.fields.contains(name));
            to_raw_value(&members)
        });
        chosen.and_then(Result::ok).unwrap_or(item)
    }
}

/// One item as it is, several as an array, byte for byte; with a note if something was truncated.
fn truncate_items(items: Vec<Box<RawValue>>, is_one: bool) -> (Box<RawValue>, Option<String>) {
    let count = items.len();
    let size: usize = items.iter().map(|item| item.get().len() + 1).sum();
    if let Some(item) = items.first().filter(|item| item.get().len() >= MAX_OUTPUT) {
        let (output, how) = match truncate_item(item) {
            Some(output) => (output, " with long texts and lists shortened"),
            None => (Box::default(), " is too large to show"),
        };
        let note = format!("Cut: the first of {count} items{how}, of {size} bytes in all.");
        return (output, Some(note));
    }
    let mut kept = fitting(items, MAX_OUTPUT).rows;
    if is_one {
        return (kept.pop().unwrap_or_default(), None);
    }
    let shown = kept.len();
    let note = format!(
        "Cut: {shown} of {count} items, of {size} bytes in all; `items` and `fields` of get_execution \
         choose."
    );
    let output = to_raw_value(&kept).unwrap_or_default();
    (output, (shown < count).then_some(note))
}

fn truncate_item(item: &RawValue) -> Option<Box<RawValue>> {
    let value: Value = serde_json::from_str(item.get()).ok()?;
    TRUNCATION_STEPS.iter().find_map(|limits| {
        let raw = to_raw_value(&shortened(&value, *limits, &mut false)).ok()?;
        (raw.get().len() <= MAX_OUTPUT).then_some(raw)
    })
}

/// Bytes of the body; about 1,000 tokens.
const MAX_BODY: usize = 4 * 1024;

/// The HTTP answer of a webhook.
#[skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WebhookResponse {
    /// The answer has this HTTP status.
    status: u16,
    content_type: Option<String>,
    /// It is JSON or text, and absent if it is the same as `output`, or binary.
    #[schemars(extend("not" = {"type": "null"}))]
    body: Option<Box<RawValue>>,
    /// A binary body has this size.
    bytes: Option<usize>,
    #[serde(skip)]
    text: Option<String>,
}

impl WebhookResponse {
    fn new(reply: &UrlReply) -> Self {
        let body = reply.whole();
        let text = std::str::from_utf8(&body).ok();
        Self {
            status: reply.status.as_u16(),
            content_type: reply.content_type.clone(),
            body: None,
            bytes: text.is_none().then_some(reply.body.len()),
            text: text.filter(|text| !text.is_empty()).map(str::to_owned),
        }
    }

    /// Fills in the body as it is shown, unless it holds the `items` that are the output, all or the first.
    fn show(
        &mut self,
        items: Option<&[Box<RawValue>]>,
        redactor: &Redactor,
        selection: &OutputSelection,
    ) {
        let Some(text) = self.text.take() else { return };
        let value = |text: &str| serde_json::from_str::<Value>(text).ok();
        if let (Some(items), Some(body)) = (items, value(&text)) {
            let items: Vec<_> = items.iter().filter_map(|item| value(item.get())).collect();
            let is_output = items.first() == Some(&body) || body.as_array() == Some(&items);
            if is_output {
                return;
            }
        }
        let json: Option<&RawValue> = serde_json::from_str(&text).ok();
        let shown = json.map(|json| {
            let body = without_stack(without_error_stack(json.to_owned()), self.status);
            selection.of_answer(redactor.raw_json(body))
        });
        let body = match shown {
            Some(body) if body.get().len() <= MAX_BODY => Some(body),
            Some(body) => to_raw_value(&head(body.get(), MAX_BODY)).ok(),
            None => to_raw_value(&head(&redactor.text(&text), MAX_BODY)).ok(),
        };
        self.body = body.filter(|body| body.get() != "null");
    }
}

/// An item of an error that the workflow handled, without the places in n8n's source.
fn without_error_stack(item: Box<RawValue>) -> Box<RawValue> {
    if !item.get().contains("\"stack\"") {
        return item;
    }
    let mut value: Value = serde_json::from_str(item.get()).unwrap_or_default();
    match drop_error_stack(&mut value) {
        true => to_raw_value(&value).unwrap_or(item),
        false => item,
    }
}

/// n8n's own error without the places in its source, which are lines `    at NAME (FILE:LINE:COLUMN)`
/// after the message; any other body as it is.
fn without_stack(body: Box<RawValue>, status: u16) -> Box<RawValue> {
    if status < 400 {
        return body;
    }
    let members = serde_json::from_str::<BTreeMap<String, &RawValue>>(body.get());
    let shown = members.ok().and_then(|mut members| {
        let text = |name: &str| serde_json::from_str::<String>(members.get(name)?.get()).ok();
        let (message, stack) = (text("message")?, text("stacktrace")?);
        let is_own =
            members.contains_key("code") && stack.contains(&message) && stack.contains("\n    at ");
        members.remove("stacktrace").filter(|_| is_own)?;
        to_raw_value(&members).ok()
    });
    shown.unwrap_or(body)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_in_a_message_are_hidden_before_it_is_cut() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let message = format!("{} {token} {}", "x ".repeat(490), "y ".repeat(99));
        let data = json!({"resultData": {"error": {"message": message}}});
        let execution = json!({"id": "7", "status": "error", "data": data});
        let run = Run::from_execution(serde_json::from_value(execution).unwrap());
        let shown = run.shown(&Redactor::new(true), &OutputSelection::default());
        let text = json!(shown).to_string();
        assert!(
            text.contains("***") && !text.contains("ghp_") && text.len() < 1_200,
            "{text}"
        );
    }

    fn raw(value: &Value) -> Box<RawValue> {
        to_raw_value(value).unwrap()
    }

    fn applied(items: Vec<Box<RawValue>>) -> (Box<RawValue>, Option<String>) {
        OutputSelection::default().apply(items, &Redactor::new(true))
    }

    #[test]
    fn secrets_are_hidden_before_anything_is_left_out() {
        let header = json!({"name": "Authorization", "value": "hunter2"});
        let value = OutputSelection {
            items: None,
            fields: vec!["value".into()],
        };
        let (output, _) = value.apply(vec![raw(&header); 2], &Redactor::new(true));
        assert_eq!(output.get(), r#"[{"value":"***"},{"value":"***"}]"#);
        // The end of the first step of truncation is within the token.
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let long = json!({"t": format!("{} {token} {}", "x ".repeat(990), "y ".repeat(9_000))});
        let (output, _) = applied(vec![raw(&long)]);
        assert!(output.get().contains("***") && !output.get().contains("ghp_"));
    }

    #[test]
    fn small_output_is_byte_for_byte() {
        let item = || RawValue::from_string("{\"a\": 1.50, \"a\":\"\\u00e4\"}".into()).unwrap();
        let output = |items| applied(items).0.get().to_owned();
        let two = format!("[{0},{0}]", item().get());
        assert_eq!(output(vec![item()]), item().get());
        assert_eq!(output(vec![item(), item()]), two);
        assert_eq!(output(Vec::new()), "[]");
    }
}
