//! The questions of a task to its client.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::task::{State, Task};
use crate::tool::{InputRequest, Inputs, ToolError, ToolErrorKind};

impl Task {
    /// Asks the client and waits for all answers. A key that was answered before keeps its answer:
    /// no key may stand for two questions.
    ///
    /// # Errors
    /// What the client says instead of an answer; before the request was answered with a task, the
    /// questions themselves.
    pub(crate) async fn ask_all(
        &self,
        requests: &[(&str, InputRequest)],
    ) -> Result<Vec<Value>, ToolError> {
        if !self.state().detached {
            let answers = given(&self.state().answers);
            return Inputs::answered(&answers, requests);
        }
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
                return answers.map_err(|reason| ToolError::new(ToolErrorKind::Upstream, reason));
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
fn all(state: &State, requests: &[(&str, InputRequest)]) -> Option<Result<Vec<Value>, String>> {
    let answers = requests.iter().map(|(key, _)| state.answers.get(*key));
    let answers: Vec<_> = answers.collect::<Option<_>>()?;
    Some(answers.into_iter().cloned().collect())
}

/// The answers that are some.
fn given(answers: &HashMap<String, Result<Value, String>>) -> Map<String, Value> {
    let given = answers
        .iter()
        .filter_map(|(key, answer)| Some((key.clone(), answer.clone().ok()?)));
    given.collect()
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
