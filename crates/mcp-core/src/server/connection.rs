//! What a server remembers about a peer that stays: the requests that it may still cancel, and the
//! questions that it was asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::ChangeNotifier;
use super::change_notifier::Interest;
use crate::jsonrpc::{Id, ResponseIn};
use crate::revision::Revision;
use crate::tool::{ClientCapabilities, LogLevel};

/// One stdio connection, or one session over HTTP.
#[derive(Default)]
pub struct Connection {
    state: Mutex<State>,
    next_question: AtomicU64,
}

#[derive(Default)]
struct State {
    negotiated: Option<Negotiated>,
    log_level: Option<LogLevel>,
    subscriptions: HashMap<String, Option<Interest>>,
    /// By request id, with the serial number of the request: a client may use an id again too soon.
    in_flight: HashMap<String, (u64, CancellationToken)>,
    next_serial: u64,
    questions: HashMap<String, oneshot::Sender<Result<Value, String>>>,
    /// Ends the stream that is told of changes.
    watching: Option<CancellationToken>,
}

/// What `initialize` agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The revision that both speak.
    pub revision: Revision,
    /// What the client can be asked for.
    pub capabilities: ClientCapabilities,
}

/// The most resources that one connection may subscribe to.
const MAX_SUBSCRIPTIONS: usize = 1000;

impl Connection {
    /// A connection that has agreed on something already.
    pub fn from_negotiated(negotiated: Negotiated) -> Self {
        let state = State {
            negotiated: Some(negotiated),
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            next_question: AtomicU64::new(0),
        }
    }

    /// What `initialize` agreed on, once it did.
    pub fn negotiated(&self) -> Option<Negotiated> {
        self.state().negotiated
    }

    /// True if nothing would be lost with this object: what was agreed on is known elsewhere.
    pub fn is_idle(&self) -> bool {
        let state = self.state();
        state.log_level.is_none()
            && state.subscriptions.is_empty()
            && state.in_flight.is_empty()
            && state.questions.is_empty()
    }

    /// Starts to watch in place of whoever watched before: one message goes to one stream.
    pub fn replace_stream(&self) -> CancellationToken {
        let token = CancellationToken::new();
        if let Some(before) = self.state().watching.replace(token.clone()) {
            before.cancel();
        }
        token
    }

    /// Ends what cannot go on without the client: its stream, and calls that wait for its answers.
    pub fn end(&self) {
        let (watching, questions) = {
            let mut state = self.state();
            (state.watching.take(), std::mem::take(&mut state.questions))
        };
        if let Some(watching) = watching {
            watching.cancel();
        }
        drop(questions);
    }

    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        self.negotiated()
            .map(|agreed| agreed.capabilities)
            .unwrap_or_default()
    }

    pub(super) fn set_negotiated(&self, negotiated: Negotiated) {
        self.state().negotiated = Some(negotiated);
    }

    /// Until the client says otherwise, it is told what is normal and worse.
    pub(super) fn log_level(&self) -> LogLevel {
        self.state().log_level.unwrap_or(LogLevel::Info)
    }

    pub(super) fn set_log_level(&self, level: LogLevel) {
        self.state().log_level = Some(level);
    }

    /// False if there are too many.
    pub(super) fn subscribe(&self, uri: &str, changes: Option<&ChangeNotifier>) -> bool {
        let subscriptions = &mut self.state().subscriptions;
        if subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return false;
        }
        if !subscriptions.contains_key(uri) {
            let interest = changes.map(|changes| changes.interest(uri));
            subscriptions.insert(uri.to_owned(), interest);
        }
        true
    }

    pub(super) fn unsubscribe(&self, uri: &str) {
        self.state().subscriptions.remove(uri);
    }

    pub(super) fn is_subscribed(&self, uri: &str) -> bool {
        self.state().subscriptions.contains_key(uri)
    }

    /// The resources that it has subscribed to.
    pub(super) fn subscribed(&self) -> Vec<String> {
        self.state().subscriptions.keys().cloned().collect()
    }

    /// Notes that `id` can be cancelled through `token` until the guard is dropped.
    pub(super) fn enter(&self, id: Id<'_>, token: CancellationToken) -> InFlight<'_> {
        let id = id.as_json().to_owned();
        let mut state = self.state();
        state.next_serial += 1;
        let serial = state.next_serial;
        state.in_flight.insert(id.clone(), (serial, token));
        drop(state);
        InFlight {
            connection: self,
            id,
            serial,
        }
    }

    /// Handles `notifications/cancelled`. An unknown id belongs to a request that was just
    /// answered, which the specification says to ignore.
    pub(super) fn cancel(&self, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow, rename = "requestId")]
            request_id: &'a RawValue,
        }
        let params =
            params.and_then(|params| serde_json::from_str::<Params<'_>>(params.get()).ok());
        let token =
            params.and_then(|params| self.state().in_flight.remove(params.request_id.get()));
        if let Some((_, token)) = token {
            token.cancel();
        }
    }

    /// Asks the client and waits for its answer.
    ///
    /// # Errors
    /// What the client says instead of an answer.
    pub(crate) async fn ask(
        &self,
        send: impl FnOnce(String) -> bool,
        method: &str,
        params: &Value,
    ) -> Result<Value, String> {
        let id = format!(
            "server-{}",
            self.next_question.fetch_add(1, Ordering::Relaxed)
        );
        let (answer, answered) = oneshot::channel();
        self.state().questions.insert(json!(id).to_string(), answer);
        let _open = Question {
            connection: self,
            id: json!(id).to_string(),
        };
        let question = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if !send(question.to_string()) {
            return Err("The client cannot be asked while it waits for plain JSON.".to_owned());
        }
        answered
            .await
            .unwrap_or_else(|_| Err("The client is gone.".to_owned()))
    }

    /// Hands an answer of the client to whoever asked. One that nobody waits for is dropped.
    pub(super) fn answered(&self, response: &ResponseIn<'_>) {
        let Some(id) = &response.id else { return };
        let Some(question) = self.state().questions.remove(id.as_json()) else {
            return;
        };
        let outcome = match response.outcome {
            Ok(result) => serde_json::from_str(result.get())
                .map_err(|_| "The client's answer cannot be read.".to_owned()),
            Err(error) => Err(refusal(error)),
        };
        let _ = question.send(outcome);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refusal(error: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        message: String,
    }
    match serde_json::from_str::<Refusal>(error.get()) {
        Ok(refusal) => format!("The client refused: {}", refusal.message),
        Err(_) => "The client refused.".to_owned(),
    }
}

/// A request that can be cancelled.
pub(super) struct InFlight<'a> {
    connection: &'a Connection,
    id: String,
    serial: u64,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let in_flight = &mut self.connection.state().in_flight;
        if in_flight
            .get(&self.id)
            .is_some_and(|(serial, _)| *serial == self.serial)
        {
            in_flight.remove(&self.id);
        }
    }
}

/// A question that waits for its answer.
struct Question<'a> {
    connection: &'a Connection,
    id: String,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.connection.state().questions.remove(&self.id);
    }
}
