//! A request that is being answered.

use std::time::Duration;

use super::params::Params;
use super::source::Source;
use crate::era::Era;
use crate::jsonrpc::Request;

/// A request with its origin.
#[derive(Clone, Copy)]
pub(super) struct ReceivedRequest<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) params: &'a Params<'a>,
    pub(super) era: Era,
    pub(super) source: &'a Source<'a>,
    /// The uptime of the server at its start.
    pub(super) started: Duration,
}
