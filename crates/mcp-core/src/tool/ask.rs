//! Asking the client while its request is being answered: for the user's input, for a model's
//! answer, for its roots.
//!
//! In the handshake era the question is a request of its own and the call waits. In the modern era
//! there are no such requests: the call ends with the question, and the client repeats it with the
//! answer. A tool that asks is therefore run from its start again in the second round, and must not
//! have done anything before it asks that may not be done twice.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value, json};

use super::{Special, ToolError, ToolErrorKind};
use crate::server::{Connection, Task};

/// What a client says that it can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The user's input.
    pub elicitation: bool,
    /// A model's answer.
    pub sampling: bool,
    /// The folders that it works in.
    pub roots: bool,
}

impl Capabilities {
    /// Reads a `ClientCapabilities` object.
    pub fn read(declared: &Value) -> Self {
        let has = |name: &str| declared.get(name).is_some_and(Value::is_object);
        Self {
            elicitation: has("elicitation"),
            sampling: has("sampling"),
            roots: has("roots"),
        }
    }
}

/// One question to the client.
#[derive(Clone, Debug)]
pub struct InputRequest {
    method: &'static str,
    params: Value,
}

impl InputRequest {
    /// Asks the user to fill in `schema`, an object of primitive properties (`elicitation/create`).
    pub fn elicit(message: &str, schema: Value) -> Self {
        let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
        Self {
            method: "elicitation/create",
            params,
        }
    }

    /// Asks the client's model; `params` is a `CreateMessageRequest`'s (`sampling/createMessage`).
    pub fn sample(params: Value) -> Self {
        Self {
            method: "sampling/createMessage",
            params,
        }
    }

    /// Asks for the folders that the client works in (`roots/list`).
    pub fn roots() -> Self {
        Self {
            method: "roots/list",
            params: json!({}),
        }
    }

    /// A question of another server, passed on as it is; `None` if clients are never asked that.
    pub fn imported(method: &str, params: Value) -> Option<Self> {
        let known = ["elicitation/create", "sampling/createMessage", "roots/list"];
        let method = known.into_iter().find(|known| *known == method)?;
        Some(Self { method, params })
    }

    /// The question as a task or a result carries it.
    pub(crate) fn to_json(&self) -> Value {
        json!({"method": self.method, "params": self.params})
    }

    /// The method of the question.
    pub fn method(&self) -> &'static str {
        self.method
    }

    fn capability(&self) -> &'static str {
        self.method.split('/').next().unwrap_or(self.method)
    }

    fn is_allowed(&self, capabilities: Capabilities) -> bool {
        match self.capability() {
            "elicitation" => capabilities.elicitation,
            "sampling" => capabilities.sampling,
            _ => capabilities.roots,
        }
    }
}

/// What earlier rounds of a call have left behind (2026-07-28, "Multi Round-Trip Requests").
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// The client's answers, those of the last round among them.
    pub answers: Map<String, Value>,
    /// What the last round has noted for this one; `null` at first.
    pub memo: Value,
}

/// How the client of a call can be asked.
#[derive(Clone, Default)]
pub(crate) enum Inputs {
    /// It cannot: plain requests have no way back.
    #[default]
    Nobody,
    /// By requests over its connection.
    Connection {
        connection: Arc<Connection>,
        /// The call waits for a person, who may take longer than a service.
        is_asking: Arc<AtomicBool>,
    },
    /// By ending the call; these are the answers so far.
    Rounds {
        capabilities: Capabilities,
        answers: Arc<Map<String, Value>>,
    },
    /// Through the task that the call goes on as.
    Task(Arc<Task>),
}

impl Inputs {
    pub(crate) fn over(connection: &Arc<Connection>) -> Self {
        Self::Connection {
            connection: Arc::clone(connection),
            is_asking: Arc::default(),
        }
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        match self {
            Self::Nobody => Capabilities::default(),
            Self::Connection { connection, .. } => connection.capabilities(),
            Self::Rounds { capabilities, .. } => *capabilities,
            Self::Task(task) => task.capabilities(),
        }
    }

    /// The answers of earlier rounds.
    pub(crate) fn answers(&self) -> Option<&Map<String, Value>> {
        match self {
            Self::Rounds { answers, .. } => Some(answers),
            _ => None,
        }
    }

    /// True if a call that asks gets its answer while it goes on; false if it has to end first.
    pub(crate) fn waits(&self) -> bool {
        match self {
            Self::Nobody | Self::Connection { .. } => true,
            Self::Rounds { .. } => false,
            Self::Task(task) => task.is_detached(),
        }
    }

    /// Refuses questions that the client did not say it can answer.
    pub(super) fn check(&self, requests: &[(&str, InputRequest)]) -> Result<(), ToolError> {
        let capabilities = self.capabilities();
        let missing: Map<String, Value> = requests
            .iter()
            .filter(|(_, request)| !request.is_allowed(capabilities))
            .map(|(_, request)| (request.capability().to_owned(), json!({})))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = missing.keys().map(String::as_str).collect();
        let message = format!("This needs a client that supports {}.", names.join(" and "));
        Err(ToolError::special(
            &message,
            Special::MissingCapability(Value::Object(missing)),
        ))
    }

    /// The answers of earlier rounds, in the order of the questions; else the error that starts the
    /// next round.
    pub(crate) fn answered(
        answers: &Map<String, Value>,
        requests: &[(&str, InputRequest)],
    ) -> Result<Vec<Value>, ToolError> {
        let open: Map<String, Value> = requests
            .iter()
            .filter(|(key, _)| !answers.contains_key(*key))
            .map(|(key, request)| ((*key).to_owned(), request.to_json()))
            .collect();
        if open.is_empty() {
            return Ok(requests
                .iter()
                .map(|(key, _)| answers[*key].clone())
                .collect());
        }
        Err(ToolError::special(
            "The client must answer first.",
            Special::InputRequired {
                questions: open,
                memo: Value::Null,
            },
        ))
    }
}

/// Sends one question over a connection and waits for its answer.
pub(super) async fn over(
    connection: &Connection,
    send: impl FnOnce(String) -> bool,
    request: InputRequest,
) -> Result<Value, ToolError> {
    let answer = connection.ask(send, request.method, &request.params).await;
    answer.map_err(|reason| ToolError::new(ToolErrorKind::Upstream, reason))
}
