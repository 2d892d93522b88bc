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
    revoked: Option<Arc<CancellationToken>>,
}

impl Caller {
    /// Returns the caller of `call`: its session, if it has one, or its principal, which comes first with
    /// `isolation = "principal"`. `None` if it has neither.
    pub(crate) fn new(call: &Call, isolation: Isolation) -> Option<Self> {
        let origin = call.extension::<OriginalRequest>()?;
        let principal = origin.principal.as_ref();
        let connection = origin.connection.as_ref();
        let connection =
            connection.filter(|_| principal.is_none() || isolation != Isolation::Principal);
        let id = match connection {
            Some(connection) => CallerId::Number(connection.id()),
            None => CallerId::Name(Arc::clone(&principal?.name)),
        };
        Some(Self {
            id,
            connection: connection.cloned(),
            revoked: origin.revoked.clone(),
        })
    }

    /// Returns the caller that gets questions and log messages that name no call. Only calls of one session are
    /// certainly of one client: two clients may use one token. `isolation = "principal"` says that they are
    /// one. `None` makes each call one of a caller of its own.
    pub(super) fn attributed(&self, isolation: Isolation) -> Option<CallerId> {
        let is_certain = isolation == Isolation::Principal || self.connection.is_some();
        is_certain.then(|| self.id.clone())
    }

    /// Completes when its session has ended or its token is revoked.
    pub(super) async fn left(&self) {
        let session = self.connection.as_deref().map(Connection::ended);
        tokio::select! {
            () = cancelled(session) => {}
            () = cancelled(self.revoked.as_deref()) => {}
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_core::era::Era;

    use super::*;

    fn call(principal: Option<&str>, connection: Option<&Arc<Connection>>) -> Call {
        Call::default().with_extension(Arc::new(OriginalRequest {
            params: Box::default(),
            trace: mcp_core::trace::TraceContext::for_request(None),
            era: Era::Modern,
            timeout: Duration::ZERO,
            connection: connection.cloned(),
            principal: principal.map(|name| Arc::new(mcp_core::server::Principal::new(name))),
            view: None,
            sender: mcp_core::server::Sender::default(),
            revoked: principal.map(|_| Arc::default()),
            left: None,
            notes: Arc::default(),
        }))
    }

    #[test]
    fn caller_is_attributed_only_if_it_is_certain() {
        use Isolation::{Principal, Session, Shared};
        let connection = Arc::new(Connection::default());
        let session = || Some(CallerId::Number(connection.id()));
        let ada = || Some(CallerId::Name("ada".into()));
        // The caller's instance, and the caller that is asked.
        for (principal, has_session, isolation, id, attributed) in [
            (None, false, Shared, None, None),
            (None, false, Principal, None, None),
            (None, true, Shared, session(), session()),
            (None, true, Principal, session(), session()),
            (Some("ada"), false, Shared, ada(), None),
            (Some("ada"), false, Session, ada(), None),
            (Some("ada"), false, Principal, ada(), ada()),
            (Some("ada"), true, Shared, session(), session()),
            (Some("ada"), true, Session, session(), session()),
            (Some("ada"), true, Principal, ada(), ada()),
        ] {
            let connection = has_session.then_some(&connection);
            let caller = Caller::new(&call(principal, connection), isolation);
            let found = caller.as_ref().map(|caller| caller.id.clone());
            assert_eq!(found, id, "{principal:?} {has_session} {isolation:?}");
            let found = caller.and_then(|caller| caller.attributed(isolation));
            assert_eq!(
                found, attributed,
                "{principal:?} {has_session} {isolation:?}"
            );
        }
    }
}
