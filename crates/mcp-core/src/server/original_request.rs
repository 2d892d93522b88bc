//! Facts about how a call came, for those that pass it on to another server.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::era::Era;
use crate::jsonrpc::Members;

/// How a request came; an extension of calls on servers that pass them on.
#[derive(Clone, Debug)]
pub struct OriginalRequest {
    /// Its parameters.
    pub params: Members,
    /// W3C `traceparent` of its headers.
    pub traceparent: Option<String>,
    /// The era that it belongs to.
    pub era: Era,
    /// How long it is worked on before it is given up.
    pub timeout: Duration,
}

/// The state that earlier rounds of a call have left (2026-07-28, "Multi Round-Trip Requests"); an
/// extension of calls that are not in their first round.
#[derive(Clone, Debug, Default)]
pub struct PreviousRounds {
    /// The client's answers, those of the last round among them.
    pub answers: Map<String, Value>,
    /// The memo of the last round for this one; `null` at first.
    pub memo: Value,
}

impl PreviousRounds {
    /// True if nothing was before it.
    pub(super) fn is_first(&self) -> bool {
        self.answers.is_empty() && self.memo.is_null()
    }
}
