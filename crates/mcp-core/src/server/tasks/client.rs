//! The client of a call that has become a task: it comes to the task, and is asked there.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::task::{Task, TaskState};
use crate::tool::{AnswersFuture, Client, ClientInfo, InputRequest, ToolError};

/// The client of a task.
pub(super) struct TaskClient {
    task: Arc<Task>,
    /// The client of its request.
    of_request: Arc<dyn Client>,
    info: ClientInfo,
    /// It can be told something over the request's connection.
    keeps_peer: bool,
}

impl TaskClient {
    pub(super) fn new(task: &Arc<Task>, of_request: Arc<dyn Client>, keeps_peer: bool) -> Self {
        let info = ClientInfo {
            message_meta: Some(Arc::new(task.related())),
            ..of_request.info().clone()
        };
        Self {
            task: Arc::clone(task),
            of_request,
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
            self.of_request.notify(message);
        }
    }

    fn disconnect(&self) {
        if self.keeps_peer {
            self.of_request.disconnect();
        }
    }

    fn show_status(&self, message: &str) {
        self.task.say(message);
    }

    fn ask<'a>(&'a self, questions: &'a [(&'a str, InputRequest)]) -> AnswersFuture<'a> {
        // Until the request was answered, its questions are those of the request.
        match self.task.is_detached() {
            true => Box::pin(self.task.ask_all(questions)),
            false => self.of_request.ask(questions),
        }
    }

    fn require_input(&self, questions: Map<String, Value>, memo: Value) -> ToolError {
        self.of_request.require_input(questions, memo)
    }

    fn waits_for_answers(&self) -> bool {
        self.task.is_detached()
    }

    fn start_task(&self) -> BoxFuture<'_, bool> {
        Box::pin(async {
            self.task.ask_out().await;
            true
        })
    }
}

impl Task {
    /// Asks the client and waits for all answers. A key that was answered before keeps its answer:
    /// no key may stand for two questions.
    ///
    /// # Errors
    /// The reason why the client gives no answer.
    async fn ask_all(&self, requests: &[(&str, InputRequest)]) -> Result<Vec<Value>, ToolError> {
        let mut changes = self.changes();
        let _open = Open {
            task: self,
            keys: requests.iter().map(|(key, _)| *key).collect(),
        };
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
            // The sender is the task's: it never goes before us.
            let _ = changes.changed().await;
        }
    }

    /// Takes an answer. One to a question that is not open is ignored, as the extension asks.
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

/// The answers to all `requests`, in their order; `None` while one is missing.
fn all(state: &TaskState, requests: &[(&str, InputRequest)]) -> Option<Result<Vec<Value>, String>> {
    let answers = requests.iter().map(|(key, _)| state.answers.get(*key));
    let answers: Vec<_> = answers.collect::<Option<_>>()?;
    Some(answers.into_iter().cloned().collect())
}

/// Questions that somebody waits for. Whoever waits no longer, asks no longer.
struct Open<'a> {
    task: &'a Task,
    keys: Vec<&'a str>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.task.change(|state| {
            let before = state.questions.len();
            state
                .questions
                .retain(|key, _| !self.keys.contains(&key.as_str()));
            state.questions.len() < before
        });
    }
}
