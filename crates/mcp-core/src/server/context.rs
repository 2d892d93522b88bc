//! The context of a request during dispatch: the one value that passes through the methods.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::answer::Answer;
use super::audit::AuditNotes;
use super::clients::RequestClient;
use super::params::wrong;
use super::record::RequestRecord;
use super::{Caller, ClientName, Connection};
use crate::era::Era;
use crate::error::Error;
use crate::tool::{Call, ToolError};
use crate::trace::TraceContext;

/// A request that has passed the checks of its era. Facts about it are those of its record.
pub(super) struct RequestContext<'a> {
    /// The request as audit, metrics and traces see it.
    pub(super) record: &'a RequestRecord<'a>,
    /// The request as tools see it.
    pub(super) call: Call,
    /// The client of `call`.
    pub(super) client: Arc<RequestClient>,
}

impl<'a> Deref for RequestContext<'a> {
    type Target = RequestRecord<'a>;

    fn deref(&self) -> &RequestRecord<'a> {
        self.record
    }
}

impl<'a> RequestContext<'a> {
    /// Parses the parameters as `T`; an error names `field`.
    pub(super) fn parse<T: Deserialize<'a>>(&self, field: &str) -> Result<T, Error> {
        serde_json::from_str(self.params.text().unwrap_or("{}"))
            .map_err(|error| wrong(field, &error.to_string()))
    }

    /// Returns the answer of work that has ended; `done` makes it of the result.
    pub(super) fn answer<T>(
        &self,
        result: Result<T, ToolError>,
        done: impl FnOnce(T) -> Answer,
    ) -> Result<Answer, Error> {
        match result {
            Ok(result) => Ok(done(result)),
            Err(error) => match self.client.questions_of(&error) {
                Some(questions) => Ok(Answer::NeedsInput(questions)),
                None => Err(error.into()),
            },
        }
    }
}

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
    /// Its caller.
    pub caller: Caller,
    /// The name that the client gives itself.
    pub client: ClientName,
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
