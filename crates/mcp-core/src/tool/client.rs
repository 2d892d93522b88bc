//! The interface from a call to its client.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ClientCapabilities, InputRequest, ToolError, ToolErrorKind};

/// Facts about the client of a call.
#[derive(Clone, Debug, Default)]
pub struct ClientFacts {
    /// A unique name, if it is known. Only this client sees the tasks of its calls.
    pub name: Option<Arc<str>>,
    /// The owner of its bearer token, the same in all its sessions.
    pub principal: Option<Arc<Principal>>,
    /// The digits with which the id of the task begins in which the call runs, or would run: 32
    /// hexadecimal ones.
    pub task_id: Option<Arc<str>>,
    /// The capabilities that it has declared.
    pub capabilities: ClientCapabilities,
    /// The lowest severity of log messages to send; `None` for no messages.
    pub log_level: Option<LogLevel>,
    /// True if calls may be answered with a task (2026-07-28).
    pub supports_tasks: bool,
    /// The `_meta` of messages about the call; in a task it names the task (2025-11-25, "Related
    /// Task Metadata").
    pub message_meta: Option<Arc<Value>>,
}

/// The client of a call: of a request in any era, of a task, or none.
pub trait CallClient: Send + Sync {
    /// Facts about it.
    fn info(&self) -> &ClientFacts;

    /// Sends one encoded notification, without a newline. It is dropped if there is no stream to the
    /// client.
    fn notify(&self, message: String);

    /// Closes its connection, but not the call, if the client can resume the stream.
    fn disconnect(&self) {}

    /// Sets the status message of the task, if the call is one.
    fn show_status(&self, _message: &str) {}

    /// Asks questions that its capabilities allow. The answers are in the order of the questions. A
    /// client without capabilities is asked nothing.
    ///
    /// # Errors
    /// The refusal of the client, or [`ToolErrorKind::Interrupted`] if the call has to end before
    /// there is an answer.
    fn ask<'a>(&'a self, _questions: &'a [(&'a str, InputRequest)]) -> AnswersFuture<'a> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Stores the questions, by key, and the memo with which the call ends. Returns the error that
    /// ends it.
    fn require_input(&self, _questions: Map<String, Value>, _memo: Value) -> ToolError {
        ToolError::new(
            ToolErrorKind::Interrupted,
            "The client must answer the question first.",
        )
    }

    /// True if [`CallClient::ask`] waits for answers; false if the call has to end first.
    fn waits_for_answers(&self) -> bool {
        true
    }

    /// True while the call waits for a person.
    fn is_asking(&self) -> bool {
        false
    }

    /// True if the call is cancelled because the server stops, and not by its client.
    fn is_closing(&self) -> bool {
        false
    }

    /// Answers the request with a task, in which the call continues. Returns false if the call cannot
    /// become a task.
    fn start_task(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
}

/// Answers that the call waits for.
pub type AnswersFuture<'a> = BoxFuture<'a, Result<Vec<Value>, ToolError>>;

/// The client of a call without one: it drops notifications and is never asked.
pub(super) struct NoClient(pub(super) ClientFacts);

impl CallClient for NoClient {
    fn info(&self) -> &ClientFacts {
        &self.0
    }

    fn notify(&self, _: String) {}
}

/// The severity of a log message, least severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For debugging.
    Debug,
    /// General information.
    Info,
    /// Normal but significant.
    Notice,
    /// Something may be wrong.
    Warning,
    /// Something failed.
    Error,
    /// A component failed.
    Critical,
    /// Act at once.
    Alert,
    /// Nothing works.
    Emergency,
}

/// The prefixes of claims. No token has a name that begins with one of them.
const PREFIXES: [&str; 4] = ["role:", "sub:", "group:", "scope:"];

/// The owner of a bearer token. Sessions, tasks and states belong to its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principal {
    /// Its unique name: that of a token in the token file, which is one word, or the issuer and the subject of
    /// an OAuth token, with a space between them. So neither can be taken for the other.
    pub name: Arc<str>,
    /// False for the owner of a token without a name of its own, who may be anybody.
    pub is_named: bool,
    /// Facts about it: `role:NAME` in the token file; `ISSUER sub:…`, `ISSUER group:…` and `ISSUER scope:…` in an
    /// OAuth token, and the same without the issuer if only one is configured.
    pub claims: Vec<Arc<str>>,
}

impl Principal {
    /// The principal with this name, without claims.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            is_named: true,
            claims: Vec::new(),
        }
    }

    /// The name of the role that the token file gives it.
    pub fn role(&self) -> Option<&str> {
        let mut claims = self.claims.iter();
        claims.find_map(|claim| claim.strip_prefix(PREFIXES[0]))
    }

    /// True if the text has the form of a claim, with or without an issuer.
    pub fn is_claim(text: &str) -> bool {
        let after_issuer = text.split_once(' ').map_or(text, |(_, rest)| rest);
        let begins = |prefix| text.starts_with(prefix) || after_issuer.starts_with(prefix);
        PREFIXES.into_iter().any(begins)
    }
}
