//! The client of a call, by its era. The client of an unversioned call is its caller, who can be asked nothing.
//!
//! In the legacy era a question is a request over the client's connection, and the call waits for the response. In the
//! modern era there are no requests to a client: a call that asks ends with the question, and the client repeats it with
//! the answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::try_join_all;
use serde_json::{Map, Value};

use super::answer::Questions;
use super::{Caller, Connection, lock};
use crate::tool::{AnswersFuture, Client, ClientInfo, InputRequest, ToolError, ToolErrorKind};

/// A client that stays connected.
pub(super) struct LegacyClient {
    caller: Caller,
    connection: Arc<Connection>,
    info: ClientInfo,
    /// True while the call waits for a person, who may take longer than a service.
    is_asking: AtomicBool,
}

impl LegacyClient {
    pub(super) fn new(caller: &Caller, connection: &Arc<Connection>) -> Self {
        let info = ClientInfo {
            capabilities: connection.capabilities(),
            log_level: Some(connection.log_level()),
            ..caller.info().clone()
        };
        Self {
            caller: caller.clone(),
            connection: Arc::clone(connection),
            info,
            is_asking: AtomicBool::new(false),
        }
    }
}

impl Client for LegacyClient {
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
        Box::pin(async move {
            self.is_asking.store(true, Ordering::Relaxed);
            let send = |message| self.caller.send(message);
            let answers = try_join_all(questions.iter().map(|(_, question)| {
                let (method, params) = (question.method(), question.params());
                self.connection.ask(send, method, params)
            }));
            let answers = answers.await.map_err(ToolError::upstream);
            self.is_asking.store(false, Ordering::Relaxed);
            answers
        })
    }

    fn is_asking(&self) -> bool {
        self.is_asking.load(Ordering::Relaxed)
    }
}

/// A client that describes itself in every request.
pub(super) struct ModernClient {
    caller: Caller,
    info: ClientInfo,
    /// The state of earlier rounds; `None` for methods without rounds.
    round: Option<Arc<PreviousRounds>>,
    /// The questions with which the call ends.
    questions: Mutex<Option<Questions>>,
}

impl ModernClient {
    pub(super) fn new(
        caller: &Caller,
        info: ClientInfo,
        round: Option<Arc<PreviousRounds>>,
    ) -> Self {
        Self {
            caller: caller.clone(),
            info,
            round,
            questions: Mutex::default(),
        }
    }

    pub(super) fn round(&self) -> Option<&Arc<PreviousRounds>> {
        self.round.as_ref()
    }

    /// Takes the questions with which a call has ended, if `error` says that it has asked `client`.
    pub(super) fn questions_of(client: Option<&Self>, error: &ToolError) -> Option<Questions> {
        let client = client.filter(|_| error.asks_client())?;
        lock(&client.questions).take()
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

/// The state of earlier rounds of a call (2026-07-28, "Multi Round-Trip Requests"); an extension of
/// calls after their first round.
#[derive(Clone, Debug, Default)]
pub struct PreviousRounds {
    /// All answers of the client so far.
    pub answers: Map<String, Value>,
    /// The memo of the last round for this one; `null` at first.
    pub memo: Value,
    /// The random id of the `requestState` of the last round, which was valid. A client can send it again.
    pub state: Option<String>,
}

impl PreviousRounds {
    /// True in the first round.
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.memo.is_null() && self.state.is_none()
    }
}
