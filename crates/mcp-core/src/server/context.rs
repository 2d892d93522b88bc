//! One request on its way through the dispatch.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::modern_client::ModernClient;
use super::outcome::CallEnd;
use super::params::Params;
use super::{Caller, Connection};
use crate::era::Era;
use crate::jsonrpc::Id;
use crate::tool::{Call, ToolError};

/// The context of one request.
pub(super) struct Context<'a> {
    pub(super) era: Era,
    pub(super) id: Id<'a>,
    /// The parameters as they came.
    pub(super) raw: Option<&'a RawValue>,
    pub(super) params: &'a Params<'a>,
    /// The connection or session that it came on, where there is one.
    pub(super) connection: Option<&'a Arc<Connection>>,
    pub(super) caller: &'a Arc<Caller>,
    /// The same as tools see it.
    pub(super) call: Call,
    /// The client of `call`, in the modern era.
    pub(super) client: Option<Arc<ModernClient>>,
}

impl Context<'_> {
    /// The end of work that had this result.
    pub(super) fn end<T>(&self, result: Result<T, ToolError>) -> CallEnd<T> {
        end(self.client.as_deref(), result)
    }
}

/// The end of work for `client` that had this result.
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
