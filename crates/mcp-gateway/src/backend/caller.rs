//! The caller of a request to a backend.

use std::sync::Arc;

use mcp_client::CallerId;
use mcp_core::server::{Connection, OriginalRequest};
use mcp_core::tool::Call;

/// The caller of a request: a session or connection, else a principal.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) id: CallerId,
    /// Held, so that no other session gets the same number.
    _connection: Option<Arc<Connection>>,
}

impl Caller {
    /// Returns the caller of `call`; `None` if it has neither a session nor a token.
    pub(crate) fn new(call: &Call) -> Option<Self> {
        let origin = call.extension::<OriginalRequest>()?;
        if let Some(connection) = &origin.connection {
            let number = Arc::as_ptr(connection).addr() as u64;
            return Some(Self {
                id: CallerId::Number(number),
                _connection: Some(Arc::clone(connection)),
            });
        }
        // Without a token the name is that of a session.
        let name = call.client().name.clone();
        let id = CallerId::Name(name.filter(|_| origin.revoked.is_some())?);
        let _connection = None;
        Some(Self { id, _connection })
    }
}
