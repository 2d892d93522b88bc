//! Passing on what clients ask of a backend's tools, resources and prompts.
//!
//! * [`exchange`]: one request, with the questions that the backend asks meanwhile.
//! * [`during`]: what the backend says while it works on a request.
//! * [`parking`]: exchanges that wait for a client to come back with an answer.
//! * [`task`]: backends that answer with a task.
//! * [`tool`], [`resource`], [`prompt`]: the items that the server offers in place of the backend's.

mod during;
mod exchange;
mod parking;
pub(crate) mod prompt;
pub(crate) mod resource;
mod task;
pub(crate) mod tool;
mod trace;

use std::sync::Arc;

use mcp_core::jsonrpc::Members;
use mcp_core::server::Origin;
use mcp_core::tool::{Call, ToolError};
use serde_json::value::RawValue;

use self::parking::Parking;
use crate::events::Log;

/// What all relayed items share.
#[derive(Clone)]
pub(crate) struct Relay {
    log: Arc<Log>,
    parking: Arc<Parking>,
}

impl Relay {
    /// A relay that records its calls in `log`.
    pub(crate) fn new(log: Arc<Log>) -> Self {
        Self {
            log,
            parking: Arc::default(),
        }
    }
}

/// The parameters of the client's request.
fn params_of(call: &Call) -> Members {
    let origin = call.extension::<Origin>();
    origin
        .map(|origin| origin.params.clone())
        .unwrap_or_default()
}

/// A result in one piece.
fn whole(result: &Members) -> Result<Box<RawValue>, ToolError> {
    RawValue::from_string(result.encode()).map_err(|error| {
        ToolError::upstream("The message could not be written as JSON.").caused_by(error)
    })
}
