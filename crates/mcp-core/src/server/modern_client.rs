//! The client of a call in the modern era. There are no requests to it: a call that asks ends with
//! the question, and the client repeats it with the answer.

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value};

use super::outcome::Questions;
use super::{Caller, PreviousRounds, lock};
use crate::tool::{AnswersFuture, Client, ClientInfo, InputRequest, ToolError, ToolErrorKind};

/// A client that describes itself in every request.
pub(super) struct ModernClient {
    caller: Arc<Caller>,
    info: ClientInfo,
    /// The state of earlier rounds; `None` for methods without rounds.
    round: Option<Arc<PreviousRounds>>,
    /// The questions with which the call ends.
    questions: Mutex<Option<Questions>>,
}

impl ModernClient {
    pub(super) fn new(
        caller: &Arc<Caller>,
        info: ClientInfo,
        round: Option<Arc<PreviousRounds>>,
    ) -> Self {
        Self {
            caller: Arc::clone(caller),
            info,
            round,
            questions: Mutex::default(),
        }
    }

    pub(super) fn round(&self) -> Option<&Arc<PreviousRounds>> {
        self.round.as_ref()
    }

    /// Takes the questions with which the call has ended.
    pub(super) fn take_questions(&self) -> Option<Questions> {
        lock(&self.questions).take()
    }

    /// Returns the answers of earlier rounds, in the order of the questions; if one is missing, the
    /// error that starts the next round.
    fn answers(&self, questions: &[(&str, InputRequest)]) -> Result<Vec<Value>, ToolError> {
        let Some(round) = &self.round else {
            return Ok(Vec::new());
        };
        let answers = questions.iter().map(|(key, _)| round.answers.get(*key));
        if let Some(answers) = answers.map(Option::<&Value>::cloned).collect() {
            return Ok(answers);
        }
        let open = questions
            .iter()
            .filter(|(key, _)| !round.answers.contains_key(*key))
            .map(|(key, question)| ((*key).to_owned(), question.to_json()));
        Err(self.require_input(open.collect(), Value::Null))
    }
}

impl Client for ModernClient {
    fn info(&self) -> &ClientInfo {
        &self.info
    }

    fn notify(&self, message: String) {
        self.caller.send(message);
    }

    fn disconnect(&self) {
        self.caller.disconnect();
    }

    fn ask<'a>(&'a self, questions: &'a [(&'a str, InputRequest)]) -> AnswersFuture<'a> {
        Box::pin(std::future::ready(self.answers(questions)))
    }

    fn require_input(&self, by_key: Map<String, Value>, memo: Value) -> ToolError {
        *lock(&self.questions) = Some(Questions { by_key, memo });
        ToolError::new(
            ToolErrorKind::Interrupted,
            "The client must answer the question first.",
        )
    }

    fn waits_for_answers(&self) -> bool {
        self.round.is_none()
    }
}
