//! One task: what its work, its polls and its listeners share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::super::Outcome;
use crate::clock::Clock;
use crate::era::Era;
use crate::error::{Error, Profile, clipped};
use crate::jsonrpc::Json;
use crate::tool::{Capabilities, InputRequest, Inputs, ToolError, ToolErrorKind};

/// A call that goes on after its request was answered.
pub(crate) struct Task {
    /// 128 random bits: whoever is told it may ask for the task, if the task belongs to nobody.
    pub(super) id: String,
    /// The caller that alone may see it.
    pub(super) owner: Option<Arc<str>>,
    /// Since 1970.
    pub(super) created: Duration,
    /// From its creation.
    pub(super) ttl: Duration,
    /// Tells the work to stop.
    pub(super) stop: CancellationToken,
    /// It is no longer kept.
    pub(super) gone: CancellationToken,
    capabilities: Capabilities,
    clock: Arc<dyn Clock>,
    state: watch::Sender<State>,
}

pub(super) struct State {
    /// Its request was answered. Until then its questions are those of the request.
    detached: bool,
    /// What the work said last about itself.
    pub(super) message: Option<String>,
    /// Since 1970.
    pub(super) updated: Duration,
    /// Open questions to the client, by key.
    pub(super) questions: Map<String, Value>,
    /// The client's answers, or why there is none.
    answers: HashMap<String, Result<Value, String>>,
    pub(super) end: Option<End>,
}

/// How a task has ended; nothing changes after that.
#[derive(Clone)]
pub(super) enum End {
    /// The result of the call, and whether the tool said that it failed.
    Result {
        json: Json,
        is_error: bool,
    },
    /// There is none.
    Error(Arc<Error>),
    Cancelled,
}

impl Task {
    /// A task of `owner` that starts with what `inputs` knows of its client.
    pub(super) fn new(
        id: String,
        owner: Option<Arc<str>>,
        ttl: Duration,
        inputs: &Inputs,
        closing: &CancellationToken,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let created = clock.unix_time();
        let answered = inputs.answers().into_iter().flatten();
        let state = State {
            detached: false,
            message: None,
            updated: created,
            questions: Map::new(),
            answers: answered
                .map(|(key, answer)| (key.clone(), Ok(answer.clone())))
                .collect(),
            end: None,
        };
        Self {
            id,
            owner,
            created,
            ttl,
            stop: closing.child_token(),
            gone: CancellationToken::new(),
            capabilities: inputs.capabilities(),
            clock,
            state: watch::Sender::new(state),
        }
    }

    /// What stops the work.
    pub(crate) fn token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// What the client can be asked for.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Says how the work stands.
    pub(crate) fn say(&self, message: &str) {
        if !message.is_empty() {
            self.change(|state| state.message = Some(clipped(message.to_owned())));
        }
    }

    /// Asks the client and waits for all answers. A key that was answered before keeps its answer:
    /// no key may stand for two questions.
    ///
    /// # Errors
    /// What the client says instead of an answer; before the call was answered with a task, the
    /// questions themselves.
    pub(crate) async fn ask_all(
        &self,
        requests: &[(&str, InputRequest)],
    ) -> Result<Vec<Value>, ToolError> {
        let mut changes = self.state.subscribe();
        if !changes.borrow().detached {
            let answers = &changes.borrow().answers;
            let answered = answers.iter().filter_map(|(key, answer)| {
                let answer = answer.as_ref().ok()?;
                Some((key.clone(), answer.clone()))
            });
            return Inputs::answered(&answered.collect(), requests);
        }
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
        });
        loop {
            let answers = {
                let state = changes.borrow_and_update();
                let answers = requests.iter().map(|(key, _)| state.answers.get(*key));
                answers.collect::<Option<Vec<_>>>().map(|answers| {
                    let answers = answers.into_iter().cloned();
                    answers.collect::<Result<Vec<Value>, String>>()
                })
            };
            if let Some(answers) = answers {
                return answers.map_err(|reason| ToolError::new(ToolErrorKind::Upstream, reason));
            }
            // The sender is ours: it never goes before we do.
            let _ = changes.changed().await;
        }
    }

    /// From now on its questions wait in it.
    pub(super) fn detach(&self) {
        self.state.send_if_modified(|state| {
            state.detached = true;
            false
        });
    }

    /// Takes an answer. One to a question that is not open is ignored, as the extension asks.
    pub(super) fn answer(&self, key: &str, answer: Result<Value, String>) {
        self.change(|state| {
            if state.questions.shift_remove(key).is_some() {
                state.answers.insert(key.to_owned(), answer);
            }
        });
    }

    /// Ends it, if it has not ended yet; false if it had.
    pub(super) fn end(&self, end: End) -> bool {
        self.change(|state| {
            state.message = end.message();
            state.questions = Map::new();
            state.answers = HashMap::new();
            state.end = Some(end);
        })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state().end.is_some()
    }

    /// What it is now.
    pub(super) fn state(&self) -> watch::Ref<'_, State> {
        self.state.borrow()
    }

    /// Its changes from now on.
    pub(super) fn changes(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// The bytes that it keeps for its client.
    pub(super) fn size(&self) -> usize {
        let state = self.state();
        match &state.end {
            Some(End::Result { json, .. }) => json.as_str().len(),
            Some(_) => 0,
            None => state.answers.values().map(size).sum(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) -> bool {
        let now = self.clock.unix_time();
        self.state.send_if_modified(|state| {
            if state.end.is_some() {
                return false;
            }
            change(state);
            state.updated = now;
            true
        })
    }
}

impl End {
    pub(super) fn of(outcome: Result<Outcome, Error>) -> Self {
        match outcome {
            Ok(Outcome { json, is_error, .. }) => Self::Result {
                json: json.shared(),
                is_error,
            },
            Err(error) => Self::Error(Arc::new(error)),
        }
    }

    /// The status message that goes with it.
    fn message(&self) -> Option<String> {
        match self {
            Self::Result {
                is_error: false, ..
            } => None,
            Self::Result { json, .. } => first_text(json),
            Self::Error(error) => Some(error.render(Era::Modern, Profile::Spec).message),
            Self::Cancelled => Some("The task was cancelled.".to_owned()),
        }
    }
}

/// What a failed tool said.
fn first_text(result: &Json) -> Option<String> {
    let result: Value = serde_json::from_str(result.as_str()).ok()?;
    let text = result.pointer("/content/0/text")?.as_str()?;
    Some(clipped(text.to_owned()))
}

fn size(answer: &Result<Value, String>) -> usize {
    match answer {
        Ok(answer) => answer.to_string().len(),
        Err(reason) => reason.len(),
    }
}

/// Questions that somebody waits for. Whoever waits no longer, asks no longer.
struct Open<'a> {
    task: &'a Task,
    keys: Vec<&'a str>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let is_open = |state: &State| {
            self.keys
                .iter()
                .any(|key| state.questions.contains_key(*key))
        };
        if is_open(&self.task.state()) {
            self.task.change(|state| {
                for key in &self.keys {
                    state.questions.shift_remove(*key);
                }
            });
        }
    }
}
