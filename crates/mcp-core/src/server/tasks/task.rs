//! The state of a task, which its work, polls and subscribers share, its JSON in both specifications, its client, and
//! its end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::POLL_INTERVAL;
use crate::clock::unix_time;
use crate::era::Era;
use crate::error::{Error, ErrorCodes, truncated};
use crate::jsonrpc::{ErrorObject, Json};
use crate::server::answer::Answer;
use crate::server::results::failed;
use crate::server::{Caller, OnDrop};
use crate::tool::{AnswersFuture, CallClient, ClientFacts, InputRequest, ToolError, ToolErrorKind};

/// A call that continues after its request was answered.
pub(in crate::server) struct Task {
    /// Begins with 128 random bits: without a name of its caller, everybody who knows the id may use the task.
    pub(super) id: String,
    /// The only caller that may see it.
    pub(super) caller: Option<Arc<str>>,
    /// The only view in which it is there; `None` for the server itself.
    pub(super) view: Option<Arc<str>>,
    /// True if another process runs it, and this one knows what the store says.
    pub(super) is_elsewhere: bool,
    /// Creation time, since 1970.
    pub(super) created: Duration,
    /// Lifetime in milliseconds, from its creation.
    ttl: AtomicU64,
    /// Cancels the work.
    pub(super) stop: CancellationToken,
    /// Cancelled when the server stops.
    pub(super) closing: CancellationToken,
    /// Cancelled when the task is no longer stored.
    pub(super) removed: CancellationToken,
    /// The work asks to answer its request with the task.
    detach_request: Notify,
    /// Cancelled when the request was answered with the task.
    detached: CancellationToken,
    state: watch::Sender<TaskState>,
}

pub(super) struct TaskState {
    /// The last status message of the work.
    pub(super) message: Option<String>,
    /// Time of the last change, since 1970.
    pub(super) updated: Duration,
    /// Open questions to the client, by key.
    pub(super) questions: Map<String, Value>,
    /// The client's answers, or the reasons for missing ones.
    pub(super) answers: HashMap<String, Result<Value, String>>,
    pub(super) outcome: Option<TaskOutcome>,
}

/// The member of `_meta` that names the task of a message (2025-11-25, "Related Task Metadata").
pub(super) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

pub(super) fn as_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Task {
    /// A task of `caller` with the answers of earlier rounds.
    pub(super) fn new(
        id: String,
        caller: &Caller,
        ttl: Duration,
        answers: &Map<String, Value>,
        closing: &CancellationToken,
    ) -> Self {
        let created = unix_time();
        let answers = answers.iter();
        let answers = answers.map(|(key, answer)| (key.clone(), Ok(answer.clone())));
        let state = TaskState {
            message: None,
            updated: created,
            questions: Map::new(),
            answers: answers.collect(),
            outcome: None,
        };
        Self {
            id,
            caller: caller.name().cloned(),
            view: caller.view.clone(),
            is_elsewhere: false,
            created,
            ttl: AtomicU64::new(as_millis(ttl)),
            stop: CancellationToken::new(),
            closing: closing.clone(),
            removed: CancellationToken::new(),
            detach_request: Notify::new(),
            detached: CancellationToken::new(),
            state: watch::Sender::new(state),
        }
    }

    /// The same task as another process has stored it.
    pub(super) fn restored(
        self,
        created: Duration,
        updated: Duration,
        message: Option<String>,
        outcome: Option<TaskOutcome>,
    ) -> Self {
        self.detach();
        self.state.send_modify(|state| {
            state.message = match &outcome {
                Some(outcome) => outcome.message(),
                None => message,
            };
            state.updated = updated;
            state.outcome = outcome;
        });
        Self {
            created,
            is_elsewhere: true,
            ..self
        }
    }

    /// The random digits with which its id begins.
    pub(super) fn digits(&self) -> &str {
        self.id.split('.').next().unwrap_or_default()
    }

    /// Lifetime, from its creation.
    pub(super) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl.load(Ordering::Relaxed))
    }

    /// Raises the lifetime to `ttl`, before the task runs in the background.
    pub(super) fn live_at_least(&self, ttl: Duration) {
        self.ttl.fetch_max(as_millis(ttl), Ordering::Relaxed);
    }

    pub(super) fn set_message(&self, message: &str) {
        self.change(|state| {
            let is_new = !message.is_empty() && state.message.as_deref() != Some(message);
            if is_new {
                state.message = Some(truncated(message.to_owned()));
            }
            is_new
        });
    }

    /// Marks the request as answered: from now on questions wait in the task.
    pub(super) fn detach(&self) {
        self.detached.cancel();
    }

    /// True once the request was answered with the task.
    pub(super) fn is_detached(&self) -> bool {
        self.detached.is_cancelled()
    }

    /// Asks to answer the request with the task, and waits until that is done.
    pub(super) async fn request_detach(&self) {
        self.detach_request.notify_one();
        self.detached.cancelled().await;
    }

    /// Completes when the work asks to answer the request with the task.
    pub(super) async fn detach_requested(&self) {
        self.detach_request.notified().await;
    }

    /// Ends the task; false if it has ended already.
    pub(super) fn end(&self, outcome: TaskOutcome) -> bool {
        self.change(|state| {
            state.message = outcome.message();
            state.questions = Map::new();
            state.answers = HashMap::new();
            state.outcome = Some(outcome);
            true
        })
    }

    /// Ends the task as cancelled and stops its work; false if it has ended already.
    pub(super) fn cancel(&self) -> bool {
        let is_cancelled = self.end(TaskOutcome::Cancelled);
        self.stop.cancel();
        is_cancelled
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state().outcome.is_some()
    }

    /// True if it has ended with an error.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state().outcome, Some(TaskOutcome::Error(_)))
    }

    pub(super) fn state(&self) -> watch::Ref<'_, TaskState> {
        self.state.borrow()
    }

    /// Its changes from now on.
    pub(super) fn changes(&self) -> watch::Receiver<TaskState> {
        self.state.subscribe()
    }

    /// The stored bytes.
    pub(super) fn size(&self) -> usize {
        let state = self.state();
        match &state.outcome {
            Some(outcome) => outcome.size(),
            None => state.answers.values().map(size).sum(),
        }
    }

    /// Changes a task that has not ended; `change` returns whether it has changed the state.
    pub(super) fn change(&self, change: impl FnOnce(&mut TaskState) -> bool) -> bool {
        let now = unix_time();
        self.state.send_if_modified(|state| {
            let has_changed = state.outcome.is_none() && change(state);
            if has_changed {
                state.updated = now;
            }
            has_changed
        })
    }

    /// Asks the client and waits for all answers. A key that was answered before keeps its answer, so
    /// each question needs its own key.
    ///
    /// # Errors
    /// The reason why there is no answer.
    async fn ask_all(&self, requests: &[(&str, InputRequest)]) -> Result<Vec<Value>, ToolError> {
        let mut changes = self.changes();
        // Withdraws the questions when the call no longer waits.
        let _open = OnDrop(|| {
            self.change(|state| {
                let before = state.questions.len();
                let is_ours = |key: &String| requests.iter().any(|(ours, _)| ours == key);
                state.questions.retain(|key, _| !is_ours(key));
                state.questions.len() < before
            });
        });
        self.change(|state| {
            for (key, request) in requests {
                if !state.answers.contains_key(*key) {
                    state.questions.insert((*key).to_owned(), request.to_json());
                }
            }
            true
        });
        loop {
            if let Some(answers) = all(&changes.borrow_and_update(), requests) {
                return answers.map_err(ToolError::upstream);
            }
            // Never fails: the task holds the sender.
            let _ = changes.changed().await;
        }
    }

    /// Stores an answer. Answers without an open question are ignored, as the extension demands.
    pub(super) fn answer(&self, key: &str, answer: Result<Value, String>) {
        self.change(|state| {
            let is_open = state.questions.shift_remove(key).is_some();
            if is_open {
                state.answers.insert(key.to_owned(), answer);
            }
            is_open
        });
    }

    /// A `DetailedTask` (the extension): the task, with its result, error or questions.
    pub(in crate::server) fn detailed(&self) -> String {
        let state = self.state();
        let mut json = self.modern(&state).to_string();
        let mut push = |name: &str, member: &str| {
            json.pop();
            json.extend([r#",""#, name, r#"":"#, member, "}"]);
        };
        match &state.outcome {
            // Inserted as JSON, so that the result keeps the bytes of the tool.
            Some(TaskOutcome::Result { json, .. }) => push("result", json.as_str()),
            Some(TaskOutcome::Error(error)) => push("error", &json!(error).to_string()),
            Some(TaskOutcome::Cancelled) => {}
            None if state.questions.is_empty() => {}
            None => push("inputRequests", &json!(state.questions).to_string()),
        }
        json
    }

    /// A `CreateTaskResult` (the extension), without its `resultType`.
    pub(super) fn created_modern(&self) -> Json {
        self.modern(&self.state()).into()
    }

    fn modern(&self, state: &TaskState) -> Value {
        let mut task = self.common(state, state.status(false));
        task["ttlMs"] = as_millis(self.ttl()).into();
        task["pollIntervalMs"] = as_millis(POLL_INTERVAL).into();
        task
    }

    /// A `Task` of 2025-11-25.
    pub(super) fn legacy(&self) -> Value {
        let state = self.state();
        let mut task = self.common(&state, state.status(true));
        task["ttl"] = as_millis(self.ttl()).into();
        task["pollInterval"] = as_millis(POLL_INTERVAL).into();
        task
    }

    fn common(&self, state: &TaskState, status: &str) -> Value {
        let mut task = json!({
            "taskId": self.id,
            "status": status,
            "createdAt": timestamp(self.created),
            "lastUpdatedAt": timestamp(state.updated),
        });
        if let Some(message) = &state.message {
            task["statusMessage"] = json!(message);
        }
        task
    }

    /// The `_meta` that relates a message of 2025-11-25 to its task.
    pub(super) fn related(&self) -> Value {
        json!({RELATED_TASK: {"taskId": self.id}})
    }
}

impl TaskState {
    /// The status. A task whose tool failed is `failed` in 2025-11-25; in the extension it is
    /// `completed`, with a result that has `isError`.
    fn status(&self, failed_tool_fails: bool) -> &'static str {
        match &self.outcome {
            Some(TaskOutcome::Result { is_error: true, .. }) if failed_tool_fails => "failed",
            Some(TaskOutcome::Result { .. }) => "completed",
            Some(TaskOutcome::Error(_)) => "failed",
            Some(TaskOutcome::Cancelled) => "cancelled",
            None if self.questions.is_empty() => "working",
            None => "input_required",
        }
    }
}

/// The id of a task of `tool`, which finds its work by the digits and the reference. A name of a tool has
/// no dot.
pub(super) fn id(digits: &str, tool: &str, reference: &str) -> String {
    let dot = if reference.is_empty() { "" } else { "." };
    format!("{digits}.{tool}{dot}{reference}")
}

fn size(answer: &Result<Value, String>) -> usize {
    match answer {
        Ok(answer) => answer.to_string().len(),
        Err(reason) => reason.len(),
    }
}

/// The client of a call that runs as a task: questions wait in the task for its answers.
pub(super) struct TaskClient {
    task: Arc<Task>,
    /// The client of its request.
    request_client: Arc<dyn CallClient>,
    info: ClientFacts,
    /// True if notifications still go over the request's connection.
    keeps_peer: bool,
}

impl TaskClient {
    pub(super) fn new(
        task: &Arc<Task>,
        request_client: Arc<dyn CallClient>,
        keeps_peer: bool,
    ) -> Self {
        let info = ClientFacts {
            message_meta: Some(Arc::new(task.related())),
            task_id: Some(task.digits().into()),
            ..request_client.info().clone()
        };
        Self {
            task: Arc::clone(task),
            request_client,
            info,
            keeps_peer,
        }
    }
}

impl CallClient for TaskClient {
    fn info(&self) -> &ClientFacts {
        &self.info
    }

    fn notify(&self, message: String) {
        if self.keeps_peer {
            self.request_client.notify(message);
        }
    }

    fn disconnect(&self) {
        if self.keeps_peer {
            self.request_client.disconnect();
        }
    }

    fn show_status(&self, message: &str) {
        self.task.set_message(message);
    }

    fn ask<'a>(&'a self, questions: &'a [(&'a str, InputRequest)]) -> AnswersFuture<'a> {
        // Until the request is answered, questions go to its client.
        match self.task.is_detached() {
            true => Box::pin(self.task.ask_all(questions)),
            false => self.request_client.ask(questions),
        }
    }

    fn require_input(&self, questions: Map<String, Value>, memo: Value) -> ToolError {
        self.request_client.require_input(questions, memo)
    }

    fn waits_for_answers(&self) -> bool {
        self.task.is_detached()
    }

    fn is_closing(&self) -> bool {
        self.task.closing.is_cancelled()
    }

    fn start_task(&self) -> BoxFuture<'_, bool> {
        Box::pin(async {
            self.task.request_detach().await;
            true
        })
    }
}

/// The answers to all `requests`, in order; `None` while one is missing.
fn all(state: &TaskState, requests: &[(&str, InputRequest)]) -> Option<Result<Vec<Value>, String>> {
    let answers = requests.iter().map(|(key, _)| state.answers.get(*key));
    let answers: Vec<_> = answers.collect::<Option<_>>()?;
    Some(answers.into_iter().cloned().collect())
}

/// The largest result that is stored.
const MAX_RESULT_BYTES: usize = 8 * 1024 * 1024;

/// The end of a task, after which it does not change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum TaskOutcome {
    /// The result of the call, also of a failed tool.
    Result { json: Json, is_error: bool },
    /// The error of the call, as the extension shows it.
    Error(ErrorObject),
    /// Cancelled by its caller, or because the server stops.
    Cancelled,
}

impl TaskOutcome {
    /// The outcome of a call. A result that is too large to store becomes an error message.
    pub(super) fn from_answer(answer: Result<Answer, Error>) -> Self {
        let (json, is_error) = match answer {
            Ok(Answer::Result { json, failed, .. }) => (json, failed),
            // A task waits for answers; it never ends with questions.
            Ok(_) => return Self::from_answer(Err(Error::Internal)),
            Err(Error::Relayed(error)) => return Self::Error(*error),
            Err(error) => return Self::Error(error.render(Era::Modern, ErrorCodes::Spec)),
        };
        match json.as_str().len() {
            size if size > MAX_RESULT_BYTES => Self::from_answer(Ok(failed(&format!(
                "The result has {size} bytes, but a task keeps at most {MAX_RESULT_BYTES}; \
                 request less at once."
            )))),
            _ => Self::Result { json, is_error },
        }
    }

    pub(super) fn failed(error: ToolError) -> Self {
        Self::from_answer(Err(Error::ToolFailed(error)))
    }

    /// The outcome of a task that has expired.
    pub(super) fn expired() -> Self {
        let message = "The task ran longer than its time to live (ttl).";
        Self::failed(ToolError::new(ToolErrorKind::Timeout, message))
    }

    /// The outcome of a task whose process has ended.
    pub(super) fn lost() -> Self {
        let message = "The server process that ran this task has ended, and the task with it. Check whether it took \
            effect, and call again.";
        Self::failed(ToolError::new(ToolErrorKind::Interrupted, message))
    }

    pub(super) fn message(&self) -> Option<String> {
        match self {
            Self::Result { json, is_error } => is_error.then(|| first_text(json)).flatten(),
            Self::Error(error) => Some(error.message.clone()),
            Self::Cancelled => Some("The task was cancelled.".to_owned()),
        }
    }

    /// The stored bytes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Result { json, .. } => json.as_str().len(),
            Self::Error(_) | Self::Cancelled => 0,
        }
    }
}

/// The message of a failed tool.
fn first_text(result: &Json) -> Option<String> {
    let result: Value = serde_json::from_str(result.as_str()).ok()?;
    let text = result.pointer("/content/0/text")?.as_str()?;
    Some(truncated(text.to_owned()))
}

/// `since_1970` in UTC, to the millisecond: `2026-07-28T09:30:00.000Z`.
fn timestamp(since_1970: Duration) -> String {
    let millis = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_in_utc_to_the_millisecond() {
        let at = |millis| timestamp(Duration::from_millis(millis));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(1_785_231_000_007), "2026-07-28T09:30:00.007Z");
        assert_eq!(at(4_107_542_400_120), "2100-03-01T00:00:00.120Z");
    }
}
