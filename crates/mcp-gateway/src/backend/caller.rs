//! The caller of a request to a backend.

use std::sync::Arc;

use mcp_client::CallerId;
use mcp_core::server::{Connection, OriginalRequest};
use mcp_core::tool::Call;
use tokio_util::sync::CancellationToken;

use crate::config::Isolation;

/// The caller of a request: a session or connection, or a principal.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) id: CallerId,
    connection: Option<Arc<Connection>>,
    /// Cancelled when its token is revoked; `None` if it has none.
    revoked: Option<CancellationToken>,
}

impl Caller {
    /// Returns the caller of `call`: its session, if it has one, or its principal, which comes first with
    /// `isolation = "principal"`. `None` if it has neither.
    pub(crate) fn new(call: &Call, isolation: Isolation) -> Option<Self> {
        let origin = call.extension::<OriginalRequest>()?;
        // Without a token the name is that of a session.
        let principal = call.client().name.as_ref();
        let principal = principal.filter(|_| origin.revoked.is_some());
        let connection = origin.connection.as_ref();
        let connection =
            connection.filter(|_| principal.is_none() || isolation != Isolation::Principal);
        let id = match connection {
            Some(connection) => CallerId::Number(connection.id()),
            None => CallerId::Name(Arc::clone(principal?)),
        };
        Some(Self {
            id,
            connection: connection.cloned(),
            revoked: origin.revoked.clone(),
        })
    }

    /// Completes when its session has ended or its token is revoked.
    pub(super) async fn left(&self) {
        let session = self.connection.as_deref().map(Connection::ended);
        tokio::select! {
            () = cancelled(session) => {}
            () = cancelled(self.revoked.as_ref()) => {}
        }
    }
}

/// Never completes without a token.
async fn cancelled(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}
