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
    rpc: Option<Box<RpcForm>>,
}

/// A JSON-RPC error that says more than the message of a failed call.
#[derive(Debug)]
pub(crate) enum RpcForm {
    /// The error that another server has answered with.
    Relayed(ErrorObject),
    /// The client did not declare these capabilities (2026-07-28).
    MissingCapability(Value),
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
    /// The call has ended to ask its client, who makes it again: not a failure (2026-07-28).
    Interrupted,
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
            Self::Interrupted => "interrupted",
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
            rpc: None,
        }
    }

    /// The JSON-RPC error that another server has answered with, passed on as it is.
    pub fn from_backend(error: ErrorObject) -> Self {
        Self {
            rpc: Some(Box::new(RpcForm::Relayed(error))),
            ..Self::new(ToolErrorKind::Upstream, "The backend refused the request.")
        }
    }

    /// The client does not have the capabilities of these names.
    pub(crate) fn missing_capability(missing: Map<String, Value>) -> Self {
        let names: Vec<&str> = missing.keys().map(String::as_str).collect();
        let names = names.join(" and ");
        Self {
            rpc: Some(Box::new(RpcForm::MissingCapability(missing.into()))),
            ..Self::invalid_argument(format!("This needs a client that supports {names}."))
        }
    }

    /// The code of a JSON-RPC error that another server has answered with.
    pub fn code(&self) -> Option<i32> {
        match self.rpc.as_deref() {
            Some(RpcForm::Relayed(error)) => Some(error.code),
            _ => None,
        }
    }

    /// True if it only ends a round: the client is asked, and calls again (2026-07-28).
    pub fn asks_client(&self) -> bool {
        self.kind == ToolErrorKind::Interrupted
    }

    /// True if a client of `era` gets a JSON-RPC error where others get a result that says what has
    /// failed. The error of another server is one in every era.
    pub(crate) fn is_rpc_error(&self, era: Era) -> bool {
        match self.rpc.as_deref() {
            Some(RpcForm::Relayed(_)) => true,
            Some(RpcForm::MissingCapability(_)) => era == Era::Modern,
            None => false,
        }
    }

    /// Takes out the JSON-RPC error, where it has one.
    pub(crate) fn take_rpc(&mut self) -> Option<RpcForm> {
        self.rpc.take().map(|form| *form)
    }

    /// True if it is no failure of the service or the tool, so that its operator need not know.
    pub(crate) fn is_of_client(&self) -> bool {
        self.rpc.is_some() || self.asks_client()
    }

    /// [`ToolErrorKind::InvalidArgument`]; the message names the argument.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::InvalidArgument, message)
    }

    /// [`ToolErrorKind::NotFound`]; the message says how to find what exists.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::NotFound, message)
    }

    /// [`ToolErrorKind::Conflict`]; the message says what is in the way.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Conflict, message)
    }

    /// [`ToolErrorKind::Unauthorized`]; the message names the credential.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Unauthorized, message)
    }

    /// [`ToolErrorKind::Forbidden`]; the message names who decides.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Forbidden, message)
    }

    /// [`ToolErrorKind::Unavailable`]; the message names the service and its address.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Unavailable, message)
    }

    /// [`ToolErrorKind::Upstream`].
    pub fn upstream(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Upstream, message)
    }

    /// The result cannot be written as JSON.
    pub(crate) fn unwritable(error: serde_json::Error) -> Self {
        Self::upstream("The result could not be written as JSON.").caused_by(error)
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
