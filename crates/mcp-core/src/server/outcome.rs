//! Outcomes of requests, before they get the form of their era.

use serde_json::{Map, Value};

use super::connection::Negotiated;
use crate::error::Error;
use crate::jsonrpc::Json;
use crate::tool::ToolError;

/// The outcome of a request that has not failed.
pub(super) enum Outcome {
    Done(MethodResult),
    /// Questions that the client must answer before there is a result.
    NeedsInput(Questions),
}

/// The result of a request.
pub(super) struct MethodResult {
    pub(super) json: Json,
    /// True for the result of a tool that failed.
    pub(super) is_error: bool,
    /// Set by `initialize`.
    pub(super) negotiated: Option<Negotiated>,
    pub(super) kind: ResultKind,
    /// Members of its `_meta`, as JSON without braces; may be empty.
    pub(super) meta: String,
}

/// The `resultType` in the modern era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultKind {
    Complete,
    /// A task instead of the result.
    Task,
    /// A result that already has its `resultType`.
    Whole,
}

/// Questions to the client, and the memo for the next round.
pub(super) struct Questions {
    pub(super) by_key: Map<String, Value>,
    pub(super) memo: Value,
}

/// The end of the work on a request.
pub(super) enum CallEnd<T> {
    Done(T),
    NeedsInput(Questions),
    Failed(ToolError),
}

impl<T> CallEnd<T> {
    /// Returns the outcome of the request; `done` turns the result into one.
    pub(super) fn into_outcome(self, done: impl FnOnce(T) -> Outcome) -> Result<Outcome, Error> {
        match self {
            Self::Done(result) => Ok(done(result)),
            Self::NeedsInput(questions) => Ok(Outcome::NeedsInput(questions)),
            Self::Failed(error) => Err(error.into()),
        }
    }
}

impl From<Json> for MethodResult {
    fn from(json: Json) -> Self {
        Self {
            json,
            is_error: false,
            negotiated: None,
            kind: ResultKind::Complete,
            meta: String::new(),
        }
    }
}

impl From<MethodResult> for Outcome {
    fn from(result: MethodResult) -> Self {
        Self::Done(result)
    }
}

impl From<Json> for Outcome {
    fn from(json: Json) -> Self {
        Self::Done(json.into())
    }
}

impl From<Value> for Outcome {
    fn from(value: Value) -> Self {
        Json::from(value).into()
    }
}
