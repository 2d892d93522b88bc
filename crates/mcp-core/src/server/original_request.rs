//! Facts about the client's request, for calls that relay it to another server.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{AuditNotes, Connection, Sender};
use crate::era::Era;
use crate::tool::Principal;
use crate::trace::TraceContext;

/// The client's request; an extension of calls on servers that relay.
#[derive(Clone)]
pub struct OriginalRequest {
    /// The JSON of its parameters, not deeper than `MAX_NESTING`; empty if it has none.
    pub params: Box<str>,
    /// Its span. It is in the trace of the client, if that has sent one, and else in a new one.
    pub trace: TraceContext,
    /// Its era.
    pub era: Era,
    /// The timeout of the call.
    pub timeout: Duration,
    /// Its connection or session, if it has one.
    pub connection: Option<Arc<Connection>>,
    /// The owner of the bearer token of its caller; `None` if it has none.
    pub principal: Option<Arc<Principal>>,
    /// The name of the view that its caller uses; `None` for the server itself.
    pub view: Option<Arc<str>>,
    /// The client and its address.
    pub sender: Sender,
    /// Cancelled when the bearer token of its caller is revoked; `None` if it has none.
    pub revoked: Option<Arc<CancellationToken>>,
    /// Cancelled when its client has left before the answer and cannot resume the stream. Before the modern era that
    /// does not cancel the call.
    pub left: Option<Arc<CancellationToken>>,
    /// Facts for the audit.
    pub notes: Arc<AuditNotes>,
}

/// The request for which a resource is only read to see whether it exists, before a subscription to it; an
/// extension of the calls of such reads.
#[derive(Clone, Copy, Debug)]
pub struct ExistenceCheck {
    /// `resources/subscribe`, which the audit records, or `subscriptions/listen`.
    pub method: &'static str,
}

/// The state of earlier rounds of a call (2026-07-28, "Multi Round-Trip Requests"); an extension of
/// calls after their first round.
#[derive(Clone, Debug, Default)]
pub struct PreviousRounds {
    /// All answers of the client so far.
    pub answers: Map<String, Value>,
    /// The memo of the last round for this one; `null` at first.
    pub memo: Value,
    /// The random id of the `requestState` of the last round, which was valid. A client can send it again.
    pub state: Option<String>,
}

impl PreviousRounds {
    /// True in the first round.
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.memo.is_null() && self.state.is_none()
    }
}
