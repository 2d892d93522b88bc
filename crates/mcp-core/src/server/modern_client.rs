//! The client of a call in the modern era. There are no requests to it: a call that asks ends with
//! the question, and the client repeats it with the answer. A tool that asks is therefore run from
//! its start again in the second round, and must not have done anything before it asks that may not
//! be done twice.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

use super::outcome::Questions;
use super::{Caller, PreviousRounds};
use crate::tool::{AnswersFuture, Client, ClientInfo, InputRequest, ToolError, ToolErrorKind};

/// A client that describes itself in every request.
pub(super) struct ModernClient {
    caller: Arc<Caller>,
    info: ClientInfo,
    /// The state that earlier rounds have left; `None` for requests that are not repeated.
    round: Option<Arc<PreviousRounds>>,
    /// The questions to ask it at the end of the call.
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

    /// The questions that the call has ended with.
    pub(super) fn take_questions(&self) -> Option<Questions> {
        let mut questions = self
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        questions.take()
    }

    /// The answers of earlier rounds, in the order of the questions; else the error that starts the
    /// next round.
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

    fn require_input(&self, questions: Map<String, Value>, memo: Value) -> ToolError {
        let mut asked = self
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *asked = Some(Questions {
            by_key: questions,
            memo,
        });
        ToolError::new(ToolErrorKind::Interrupted, "The client must answer first.")
    }

    fn waits_for_answers(&self) -> bool {
        self.round.is_none()
    }
}
