//! The client of a call, by its era.
//!
//! In the legacy era a question is a request over the client's connection, and the call waits for the response. In the
//! modern era there are no requests to a client: a call that asks ends with the question, and the client repeats it with
//! the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::answer::Questions;
use super::{Caller, Connection, Peer};
use crate::tool::{AnswersFuture, CallClient, ClientFacts, InputRequest, ToolError, ToolErrorKind};

/// The client of a request.
pub(super) struct RequestClient {
    /// The receiver of messages to it.
    peer: Option<Arc<dyn Peer>>,
    info: ClientFacts,
    asking: Asking,
}

/// The way in which a client is asked.
enum Asking {
    /// It can be asked nothing.
    Never,
    /// It stays connected.
    Legacy {
        connection: Arc<Connection>,
        /// True while the call waits for a person, who may take longer than a service.
        is_waiting: AtomicBool,
    },
    /// It describes itself in every request.
    Modern {
        /// The state of earlier rounds; `None` for methods without rounds.
        round: Option<Arc<PreviousRounds>>,
        /// The questions with which the call ends.
        questions: Mutex<Option<Questions>>,
    },
}

impl RequestClient {
    pub(super) fn unversioned(caller: &Caller) -> Self {
        Self {
            peer: caller.peer.clone(),
            info: caller.info.clone(),
            asking: Asking::Never,
        }
    }

    pub(super) fn legacy(caller: &Caller, connection: &Arc<Connection>) -> Self {
        Self {
            peer: caller.peer.clone(),
            info: ClientFacts {
                capabilities: connection.capabilities(),
                log_level: Some(connection.log_level()),
                ..caller.info.clone()
            },
            asking: Asking::Legacy {
                connection: Arc::clone(connection),
                is_waiting: AtomicBool::new(false),
            },
        }
    }

    pub(super) fn modern(
        caller: &Caller,
        info: ClientFacts,
        round: Option<Arc<PreviousRounds>>,
    ) -> Self {
        let questions = Mutex::default();
        Self {
            peer: caller.peer.clone(),
            info,
            asking: Asking::Modern { round, questions },
        }
    }

    pub(super) fn round(&self) -> Option<&Arc<PreviousRounds>> {
        match &self.asking {
            Asking::Modern { round, .. } => round.as_ref(),
            Asking::Never | Asking::Legacy { .. } => None,
        }
    }

    /// Takes the questions with which a call has ended, if `error` says that it has asked this client.
    pub(super) fn questions_of(&self, error: &ToolError) -> Option<Questions> {
        match &self.asking {
            Asking::Modern { questions, .. } if error.asks_client() => questions.lock().take(),
            _ => None,
        }
    }

    /// Returns the answers of earlier rounds, in the order of the questions; if one is missing, the
    /// error that starts the next round.
    fn earlier_answers(&self, questions: &[(&str, InputRequest)]) -> Result<Vec<Value>, ToolError> {
        let Some(round) = self.round() else {
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

impl CallClient for RequestClient {
    fn info(&self) -> &ClientFacts {
        &self.info
    }

    fn notify(&self, message: String) {
        if let Some(peer) = &self.peer {
            peer.notify(message);
        }
    }

    fn disconnect(&self) {
        if let Some(peer) = &self.peer {
            peer.disconnect();
        }
    }

    fn ask<'a>(&'a self, questions: &'a [(&'a str, InputRequest)]) -> AnswersFuture<'a> {
        Box::pin(async move {
            let Asking::Legacy {
                connection,
                is_waiting,
            } = &self.asking
            else {
                return self.earlier_answers(questions);
            };
            is_waiting.store(true, Ordering::Relaxed);
            let send = |message| {
                let peer = self.peer.as_ref();
                peer.map(|peer| peer.notify(message)).is_some()
            };
            let answers = try_join_all(questions.iter().map(|(_, question)| {
                let (method, params) = (question.method(), question.params());
                connection.ask(send, method, params)
            }));
            let answers = answers.await.map_err(ToolError::upstream);
            is_waiting.store(false, Ordering::Relaxed);
            answers
        })
    }

    fn is_asking(&self) -> bool {
        matches!(&self.asking, Asking::Legacy { is_waiting, .. } if is_waiting.load(Ordering::Relaxed))
    }

    fn require_input(&self, by_key: Map<String, Value>, memo: Value) -> ToolError {
        if let Asking::Modern { questions, .. } = &self.asking {
            *questions.lock() = Some(Questions { by_key, memo });
        }
        ToolError::new(
            ToolErrorKind::Interrupted,
            "The client must answer the question first.",
        )
    }

    fn waits_for_answers(&self) -> bool {
        self.round().is_none()
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
