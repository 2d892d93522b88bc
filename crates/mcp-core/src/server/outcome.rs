//! How requests end, before their era decorates that.

use serde_json::{Map, Value};

use super::connection::Negotiated;
use crate::jsonrpc::Json;
use crate::tool::ToolError;

/// The end of a request that has not failed.
pub(super) enum Outcome {
    /// A result.
    Done(MethodResult),
    /// There is no result yet: the client must answer these first.
    NeedsInput(Questions),
}

/// A result on its way to the peer.
pub(super) struct MethodResult {
    pub(super) json: Json,
    /// A tool said that it failed.
    pub(super) is_error: bool,
    /// The agreement of an `initialize`.
    pub(super) negotiated: Option<Negotiated>,
    pub(super) kind: ResultKind,
    /// Members of its `_meta`, JSON without the braces; empty where there are none.
    pub(super) meta: String,
}

/// The form of a result in the modern era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultKind {
    /// The result of the request.
    Complete,
    /// A task that stands for the result.
    Task,
    /// A result that says all by itself.
    Whole,
}

/// The questions to the client, and the memo for the next round.
pub(super) struct Questions {
    pub(super) by_key: Map<String, Value>,
    pub(super) memo: Value,
}

/// The end of the work on a request.
pub(super) enum CallEnd<T> {
    /// With what was asked for.
    Done(T),
    /// With questions to the client.
    NeedsInput(Questions),
    /// Without either.
    Failed(ToolError),
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
