//! What a tool says when it could not do what was asked.

use std::error::Error;
use std::fmt;

use serde_json::{Map, Value};

use crate::era::Era;
use crate::jsonrpc::ErrorObject;

/// A failed call, for its three audiences: the peer gets the [kind](ToolErrorKind), the model the
/// message (`isError: true`), the operator the source (in the log).
///
/// The message names what went wrong and what to try next. It never holds a body, a URL with
/// credentials, a stack trace or a path of the service.
#[derive(Debug)]
pub struct ToolError {
    kind: ToolErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    special: Option<Box<Special>>,
}

/// An error that is none of the tool's: the dispatch makes something else of it.
#[derive(Debug)]
pub(crate) enum Special {
    /// The answers to these are missing: the call is tried again with them (2026-07-28, "Multi
    /// Round-Trip Requests").
    InputRequired {
        /// The questions, by key.
        questions: Map<String, Value>,
        /// What the call wants to know when it is tried again.
        memo: Value,
    },
    /// The client did not declare these capabilities.
    MissingCapability(Value),
    /// The error that another server has answered with.
    Imported(ErrorObject),
}

/// Stable names of the ways in which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolErrorKind {
    /// An argument has the right type but no usable value.
    InvalidArgument,
    /// The thing that the arguments name does not exist.
    NotFound,
    /// The service is in a state that does not allow it.
    Conflict,
    /// The service does not answer, or answers that it cannot right now.
    Unavailable,
    /// The service refuses our credentials or their scope.
    Unauthorized,
    /// Our own configuration forbids it.
    Forbidden,
    /// Not done within the time allowed.
    Timeout,
    /// The caller gave up.
    Cancelled,
    /// The service answered with an error or with something unreadable.
    Upstream,
}

impl ToolErrorKind {
    /// The name on the wire, as `data.kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Unavailable => "unavailable",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Upstream => "upstream",
        }
    }
}

impl ToolError {
    /// An error of `kind`; `message` is one or two sentences for the model.
    pub fn new(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
            special: None,
        }
    }

    pub(crate) fn special(message: &str, special: Special) -> Self {
        let special = Some(Box::new(special));
        Self {
            special,
            ..Self::new(ToolErrorKind::InvalidArgument, message)
        }
    }

    /// The JSON-RPC error that another server has answered with, passed on as it is.
    pub fn imported(error: ErrorObject) -> Self {
        Self {
            special: Some(Box::new(Special::Imported(error))),
            ..Self::new(ToolErrorKind::Upstream, "The backend refused the request.")
        }
    }

    /// The code of a JSON-RPC error that another server has answered with.
    pub fn code(&self) -> Option<i32> {
        match self.special.as_deref() {
            Some(Special::Imported(error)) => Some(error.code),
            _ => None,
        }
    }

    /// True if it only ends a round: the client is asked, and calls again (2026-07-28).
    pub fn asks_client(&self) -> bool {
        matches!(self.special.as_deref(), Some(Special::InputRequired { .. }))
    }

    pub(crate) fn is_special(&self) -> bool {
        self.special.is_some()
    }

    /// True if a client of `era` gets something else than this error. The answer of another server
    /// is one in every era; the rest is the modern era's.
    pub(crate) fn is_for(&self, era: Era) -> bool {
        match self.special.as_deref() {
            Some(Special::Imported(_)) => true,
            Some(_) => era == Era::Modern,
            None => false,
        }
    }

    pub(crate) fn take_special(&mut self) -> Option<Special> {
        self.special.take().map(|special| *special)
    }

    /// [`ToolErrorKind::InvalidArgument`]; the message names the argument.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::InvalidArgument, message)
    }

    /// [`ToolErrorKind::NotFound`]; the message says how to find what exists.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::NotFound, message)
    }

    /// [`ToolErrorKind::Unavailable`]; the message names the service and its address.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Unavailable, message)
    }

    /// [`ToolErrorKind::Upstream`].
    pub fn upstream(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Upstream, message)
    }

    /// Adds the cause, for the operator's log only.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Which way it failed.
    pub fn kind(&self) -> ToolErrorKind {
        self.kind
    }

    /// What the model reads.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The chain of causes in one line, for the log; empty where there is none.
    pub fn causes(&self) -> String {
        let mut line = String::new();
        let mut next = self.source();
        while let Some(error) = next {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&error.to_string());
            next = error.source();
        }
        line
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for ToolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source
            .as_ref()
            .map(|source| &**source as &(dyn Error + 'static))
    }
}
