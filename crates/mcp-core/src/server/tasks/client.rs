//! The client of a call that runs as a task: questions wait in the task for its answers.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::task::{Task, TaskState};
use crate::server::OnDrop;
use crate::tool::{AnswersFuture, Client, ClientInfo, InputRequest, ToolError};

pub(super) struct TaskClient {
    task: Arc<Task>,
    /// The client of its request.
    request_client: Arc<dyn Client>,
    info: ClientInfo,
    /// True if notifications still go over the request's connection.
    keeps_peer: bool,
}

impl TaskClient {
    pub(super) fn new(task: &Arc<Task>, request_client: Arc<dyn Client>, keeps_peer: bool) -> Self {
        let info = ClientInfo {
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

impl Client for TaskClient {
    fn info(&self) -> &ClientInfo {
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

impl Task {
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
}

/// The answers to all `requests`, in order; `None` while one is missing.
fn all(state: &TaskState, requests: &[(&str, InputRequest)]) -> Option<Result<Vec<Value>, String>> {
    let answers = requests.iter().map(|(key, _)| state.answers.get(*key));
    let answers: Vec<_> = answers.collect::<Option<_>>()?;
    Some(answers.into_iter().cloned().collect())
}
