//! Errors of tools.

use std::error::Error;
use std::fmt;

use serde_json::{Map, Value};

use crate::era::Era;
use crate::jsonrpc::ErrorObject;

/// The error of a call. The peer gets the [kind](ToolErrorKind), the model the message
/// (`isError: true`), the operator the cause (in the log).
///
/// The message says what went wrong and what to try next. It never holds a body, a URL with
/// credentials, a stack trace or a path of the service.
///
/// ```
/// # use mcp_core::tool::{ToolError, ToolErrorKind};
/// let error = ToolError::not_found("There is no workflow 7. list_workflows shows all of them.");
/// assert_eq!(error.kind(), ToolErrorKind::NotFound);
/// let error = ToolError::invalid_field("limit", "must be at least 1.");
/// assert_eq!(error.message(), "limit must be at least 1.");
/// ```
#[derive(Debug)]
pub struct ToolError {
    kind: ToolErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    rpc: Option<Box<RpcError>>,
}

/// The JSON-RPC form of an error, if that holds more than the message.
#[derive(Debug)]
pub(crate) enum RpcError {
    /// The error of another server.
    Relayed(ErrorObject),
    /// The client did not declare these capabilities (2026-07-28).
    MissingCapability(Value),
}

/// The kinds of errors, with stable names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolErrorKind {
    /// An argument has the right type but an invalid value.
    InvalidArgument,
    /// The object that the arguments name does not exist.
    NotFound,
    /// The tool that the arguments name does not exist.
    ToolNotFound,
    /// The state of the service does not allow the call.
    Conflict,
    /// The service does not answer, or cannot serve the call now.
    Unavailable,
    /// The service rejects our credentials or their scope.
    Unauthorized,
    /// The server's configuration or the user forbids the call.
    Forbidden,
    /// The caller has called too often; the message says when to try again.
    RateLimited,
    /// The call took too long.
    Timeout,
    /// The caller cancelled the call.
    Cancelled,
    /// The service answered with an error or with unreadable data.
    Upstream,
    /// The call ends to ask its client, which repeats it: not a failure (2026-07-28).
    Interrupted,
}

impl ToolErrorKind {
    /// The name on the wire, as `data.kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::ToolNotFound => "tool_not_found",
            Self::Conflict => "conflict",
            Self::Unavailable => "unavailable",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::RateLimited => "rate_limited",
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

    /// The JSON-RPC error of another server, passed on unchanged.
    pub fn from_backend(error: ErrorObject) -> Self {
        Self {
            rpc: Some(Box::new(RpcError::Relayed(error))),
            ..Self::new(ToolErrorKind::Upstream, "The backend refused the request.")
        }
    }

    /// The error for a client without these capabilities.
    pub(crate) fn missing_capability(missing: Map<String, Value>) -> Self {
        let names: Vec<&str> = missing.keys().map(String::as_str).collect();
        let names = names.join(" and ");
        Self {
            rpc: Some(Box::new(RpcError::MissingCapability(missing.into()))),
            ..Self::invalid_argument(format!("This needs a client that supports {names}."))
        }
    }

    /// The code of the JSON-RPC error of another server.
    pub fn code(&self) -> Option<i32> {
        match self.rpc.as_deref() {
            Some(RpcError::Relayed(error)) => Some(error.code),
            _ => None,
        }
    }

    /// True if it only ends a round: the client answers a question and repeats the call (2026-07-28).
    pub fn asks_client(&self) -> bool {
        self.kind == ToolErrorKind::Interrupted
    }

    /// True if a client of `era` gets a JSON-RPC error instead of a result with `isError`. The error
    /// of another server is a JSON-RPC error in every era.
    pub(crate) fn is_rpc_error(&self, era: Era) -> bool {
        match self.rpc.as_deref() {
            Some(RpcError::Relayed(_)) => true,
            Some(RpcError::MissingCapability(_)) => era == Era::Modern,
            None => false,
        }
    }

    pub(crate) fn take_rpc(&mut self) -> Option<RpcError> {
        self.rpc.take().map(|form| *form)
    }

    /// True if the service or the server failed, which the operator should know. False for what the
    /// caller can correct, and for errors of another server, which logs its own.
    pub(crate) fn concerns_operator(&self) -> bool {
        use ToolErrorKind::{Timeout, Unauthorized, Unavailable, Upstream};
        let is_failure = matches!(self.kind, Timeout | Unauthorized | Unavailable | Upstream);
        is_failure && self.rpc.is_none()
    }

    /// [`ToolErrorKind::InvalidArgument`]; the message names the argument.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::InvalidArgument, message)
    }

    /// [`ToolErrorKind::InvalidArgument`] of the argument `field`; `reason` completes the sentence.
    pub fn invalid_field(field: &str, reason: impl fmt::Display) -> Self {
        Self::invalid_argument(format!("{field} {reason}"))
    }

    /// [`ToolErrorKind::NotFound`]; the message says how to find existing objects.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::NotFound, message)
    }

    /// [`ToolErrorKind::Conflict`]; the message names the conflict.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Conflict, message)
    }

    /// [`ToolErrorKind::Unauthorized`]; the message names the credential.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Unauthorized, message)
    }

    /// [`ToolErrorKind::Forbidden`]; the message names the setting or the person that decides.
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

    /// The error for a result that is not valid JSON.
    pub(crate) fn unwritable(error: serde_json::Error) -> Self {
        Self::upstream("The result could not be written as JSON.").caused_by(error)
    }

    /// The same error with another message.
    pub(super) fn with_message(self, message: String) -> Self {
        Self { message, ..self }
    }

    /// Adds the cause, for the operator's log only.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ToolErrorKind {
        self.kind
    }

    /// The message for the model.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The chain of causes in one line, for the log; empty if there is no cause.
    pub fn causes(&self) -> String {
        let chain = std::iter::successors(self.source(), |&error| error.source());
        let chain: Vec<String> = chain.map(ToString::to_string).collect();
        chain.join(": ")
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for ToolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
