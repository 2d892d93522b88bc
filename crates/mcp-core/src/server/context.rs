//! The context of a request during dispatch.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::modern_client::ModernClient;
use super::operation::Operation;
use super::outcome::CallEnd;
use super::params::{Params, wrong};
use super::{Caller, Connection};
use crate::era::Era;
use crate::error::Error;
use crate::jsonrpc::Id;
use crate::tool::{Call, ToolError};

pub(super) struct Context<'a> {
    pub(super) era: Era,
    pub(super) id: Id<'a>,
    pub(super) params: &'a Params<'a>,
    /// The connection or session of the request, if it has one.
    pub(super) connection: Option<&'a Arc<Connection>>,
    pub(super) caller: &'a Arc<Caller>,
    /// The request as tools see it.
    pub(super) call: Call,
    /// The request as the metrics count it.
    pub(super) operation: &'a Operation<'a>,
    /// The client of `call`, in the modern era.
    pub(super) client: Option<Arc<ModernClient>>,
}

impl<'a> Context<'a> {
    /// The parameters as JSON.
    pub(super) fn raw(&self) -> Option<&'a RawValue> {
        self.params.raw
    }

    /// Parses the parameters as `T`; an error names `field`.
    pub(super) fn parse<T: Deserialize<'a>>(&self, field: &str) -> Result<T, Error> {
        serde_json::from_str(self.params.text().unwrap_or("{}"))
            .map_err(|error| wrong(field, &error.to_string()))
    }

    /// The end of the call with this result.
    pub(super) fn end<T>(&self, result: Result<T, ToolError>) -> CallEnd<T> {
        if let Err(error) = &result {
            self.operation.failed(error.kind().as_str());
        }
        end(self.client.as_deref(), result)
    }
}

/// The end of a call of `client` with this result.
pub(super) fn end<T>(client: Option<&ModernClient>, result: Result<T, ToolError>) -> CallEnd<T> {
    match result {
        Ok(done) => CallEnd::Done(done),
        Err(error) if error.asks_client() => match client.and_then(ModernClient::take_questions) {
            Some(questions) => CallEnd::NeedsInput(questions),
            None => CallEnd::Failed(error),
        },
        Err(error) => CallEnd::Failed(error),
    }
}
