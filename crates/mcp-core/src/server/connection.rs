//! Connections and sessions: negotiated facts, requests in flight, open questions to the client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::changes::{ChangeNotifier, ServerChange, Subscription};
use super::{Caller, ClientName, OnDrop, Peer, Server};
use crate::error::Error;
use crate::jsonrpc::{Id, ResponseIn, member, string};
use crate::revision::Revision;
use crate::tool::{ClientCapabilities, LogLevel};

/// One stdio connection, or one session over HTTP.
pub struct Connection {
    id: u64,
    /// The process that asks its client.
    process: Option<u32>,
    state: Mutex<ConnectionState>,
    next_question: AtomicU64,
    ended: CancellationToken,
}

#[derive(Default)]
struct ConnectionState {
    negotiated: Option<Negotiated>,
    log_level: Option<LogLevel>,
    subscriptions: HashMap<String, Option<Subscription>>,
    /// The requests that the client can cancel, by their ids. A few at a time, so that comparing all ids takes less than
    /// hashing one.
    in_flight: Vec<(String, CancellationToken)>,
    questions: HashMap<String, oneshot::Sender<Result<Value, String>>>,
    /// Ends the notification stream.
    stream: Option<CancellationToken>,
    /// True once the session has ended. Requests that were accepted before may still run.
    has_ended: bool,
}

/// The result of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The negotiated revision.
    pub revision: Revision,
    /// The capabilities that the client has declared.
    pub capabilities: ClientCapabilities,
    /// The name of the client.
    pub client: ClientName,
}

/// The most resources that one connection may subscribe to.
pub(super) const MAX_SUBSCRIPTIONS: usize = 1000;
/// The beginning of the id of each question.
const QUESTION: &str = "server-";
/// The most requests in flight of one connection. Further ones are refused, not queued: the answers to the
/// questions that calls wait for come behind them.
const MAX_IN_FLIGHT: usize = 512;

impl Default for Connection {
    /// A connection before its handshake, with an id of its own.
    fn default() -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            process: None,
            state: Mutex::default(),
            next_question: AtomicU64::default(),
            ended: CancellationToken::new(),
        }
    }
}

impl Connection {
    /// A connection of a session over HTTP, which its id has negotiated. The objects of a session come and go with its
    /// requests, so they all have one id. Their questions name this process: the client may send the answer to another
    /// one, which has asked something else.
    pub fn of_session(id: u64, process: u32, negotiated: Negotiated) -> Self {
        let connection = Self {
            id,
            process: Some(process),
            ..Self::default()
        };
        connection.set_negotiated(negotiated);
        connection
    }

    /// Distinguishes connections and sessions of this process, also after the object is gone.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The result of `initialize`; `None` before it.
    pub fn negotiated(&self) -> Option<Negotiated> {
        self.state().negotiated.clone()
    }

    /// True if the object can be dropped: what was negotiated is stored in the session id.
    pub fn is_idle(&self) -> bool {
        let state = self.state();
        state.log_level.is_none()
            && state.subscriptions.is_empty()
            && state.in_flight.is_empty()
            && state.questions.is_empty()
    }

    /// Starts a notification stream and ends the one before, so that each message goes to one
    /// stream. The returned token is cancelled when the new stream must end, or if the session has ended.
    pub fn replace_stream(&self) -> CancellationToken {
        let token = CancellationToken::new();
        let mut state = self.state();
        let ended = match state.has_ended {
            true => Some(token.clone()),
            false => state.stream.replace(token.clone()),
        };
        drop(state);
        if let Some(ended) = ended {
            ended.cancel();
        }
        token
    }

    /// Cancelled when the client has ended the session.
    pub fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Ends its notification stream and the questions that wait for an answer of the client.
    pub fn end(&self) {
        self.ended.cancel();
        let (stream, questions) = {
            let mut state = self.state();
            state.has_ended = true;
            (state.stream.take(), std::mem::take(&mut state.questions))
        };
        if let Some(stream) = stream {
            stream.cancel();
        }
        drop(questions);
    }

    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        let negotiated = self.negotiated();
        negotiated.map_or_else(Default::default, |negotiated| negotiated.capabilities)
    }

    pub(super) fn set_negotiated(&self, negotiated: Negotiated) {
        self.state().negotiated = Some(negotiated);
    }

    /// The lowest severity that the client gets; `info` unless it sets another.
    pub(super) fn log_level(&self) -> LogLevel {
        self.state().log_level.unwrap_or(LogLevel::Info)
    }

    pub(super) fn set_log_level(&self, level: LogLevel) {
        self.state().log_level = Some(level);
    }

    /// Adds a subscription; false if there are too many.
    pub(super) fn subscribe(&self, uri: &str, changes: Option<&ChangeNotifier>) -> bool {
        let subscriptions = &mut self.state().subscriptions;
        if subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return false;
        }
        if !subscriptions.contains_key(uri) {
            let subscription = changes.map(|changes| changes.subscribe(uri));
            subscriptions.insert(uri.to_owned(), subscription);
        }
        true
    }

    pub(super) fn unsubscribe(&self, uri: &str) {
        self.state().subscriptions.remove(uri);
    }

    /// The URIs of the subscribed resources.
    pub(super) fn subscribed(&self) -> Vec<String> {
        self.state().subscriptions.keys().cloned().collect()
    }

    /// Registers a request that the client can cancel, until the guard is dropped.
    ///
    /// # Errors
    /// If another request in flight has the same id, which the specification forbids, or if there are too many.
    pub(super) fn enter(
        &self,
        id: Id<'_>,
        token: CancellationToken,
    ) -> Result<OnDrop<impl FnMut()>, Error> {
        let in_flight = &mut self.state().in_flight;
        let id = id.as_json();
        if in_flight.iter().any(|(other, _)| other == id) {
            return Err(Error::InvalidRequest {
                detail: "a request in flight has the same id".to_owned(),
                field: Some("id"),
            });
        }
        if in_flight.len() >= MAX_IN_FLIGHT {
            return Err(Error::TooManyInFlight(MAX_IN_FLIGHT));
        }
        in_flight.push((id.to_owned(), token));
        Ok(OnDrop(move || {
            let in_flight = &mut self.state().in_flight;
            in_flight.retain(|(other, _)| other != id);
        }))
    }

    /// Handles `notifications/cancelled`. An unknown id belongs to a request that was just answered;
    /// the specification says to ignore it.
    pub(super) fn cancel(&self, params: Option<&RawValue>) {
        let Some(id) = params.and_then(|params| member(params.get(), "requestId")) else {
            return;
        };
        let token = {
            let in_flight = &self.state().in_flight;
            let named = in_flight.iter().find(|(other, _)| other == id);
            named.map(|(_, token)| token.clone())
        };
        if let Some(token) = token {
            token.cancel();
        }
    }

    /// Asks the client and waits for its answer.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub(crate) async fn ask(
        &self,
        send: impl FnOnce(String) -> bool,
        method: &str,
        params: &Value,
    ) -> Result<Value, String> {
        let number = self.next_question.fetch_add(1, Ordering::Relaxed);
        let id = match self.process {
            Some(process) => format!("{QUESTION}{number}-{process:08x}"),
            None => format!("{QUESTION}{number}"),
        };
        let (answer, answered) = oneshot::channel();
        let key = json!(id).to_string();
        {
            let mut state = self.state();
            if state.has_ended {
                return Err("The session of the client has ended.".to_owned());
            }
            state.questions.insert(key.clone(), answer);
        }
        let _open = OnDrop(|| drop(self.state().questions.remove(&key)));
        let question = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if !send(question.to_string()) {
            return Err(
                "The client cannot be asked a question, because it does not accept an \
                event stream as the response."
                    .to_owned(),
            );
        }
        answered
            .await
            .unwrap_or_else(|_| Err("The client has disconnected.".to_owned()))
    }

    /// Passes a response of the client to the open question.
    pub(super) fn answered(&self, response: &ResponseIn<'_>) {
        let id = response.id.as_ref().map(Id::as_json);
        let Some(question) = id.and_then(|id| self.state().questions.remove(id)) else {
            return;
        };
        let outcome = match response.outcome {
            Ok(result) => serde_json::from_str(result.get())
                .map_err(|_| "The client's answer cannot be read.".to_owned()),
            Err(error) => Err(refusal(error)),
        };
        let _ = question.send(outcome);
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock()
    }
}

impl Server {
    /// Sends the changes that `connection` needs to `peer` until the server closes: changes of
    /// subscribed resources and, after `initialize`, of lists.
    pub async fn watch(&self, connection: &Connection, caller: &Caller, peer: &dyn Peer) {
        let mut receiver = self.receive_changes(caller);
        loop {
            let changes = tokio::select! {
                () = self.closing.cancelled() => return,
                changes = receiver.next(|| connection.subscribed()) => changes,
            };
            for change in changes {
                let is_wanted = match &change {
                    ServerChange::Resource(uri) => {
                        connection.state().subscriptions.contains_key(uri)
                            // It may have been allowed when the client subscribed.
                            && self.catalog_of(caller).allows_uri(uri)
                    }
                    _ => connection.negotiated().is_some(),
                };
                if is_wanted {
                    let (method, params) = (change.method(), change.params());
                    let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
                    peer.notify(message.to_string());
                }
            }
        }
    }
}

fn refusal(error: &RawValue) -> String {
    match member(error.get(), "message").and_then(string) {
        Some(message) => format!("The client refused: {message}"),
        None => "The client refused.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream may be opened by a request that was accepted before its session has ended.
    #[tokio::test]
    async fn ended_session_opens_no_stream_and_asks_nothing() {
        let connection = Connection::default();
        let before = connection.replace_stream();
        assert!(!before.is_cancelled());
        connection.end();
        assert!(before.is_cancelled());
        assert!(connection.replace_stream().is_cancelled());
        let params = json!({});
        let asked = connection.ask(|_| true, "roots/list", &params);
        assert!(asked.await.is_err());
    }
}
