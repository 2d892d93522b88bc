//! The sender of a frame.

use core::net::IpAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::tool::{Client, ClientInfo, Principal};

/// The receiver of messages to the caller while its call runs.
///
/// The transports implement it: an HTTP response becomes a stream with the first message, stdio
/// writes a line.
pub trait Peer: Send + Sync {
    /// Sends one encoded notification, without a newline. Never blocks: a peer that does not read
    /// loses notifications, not the call.
    fn notify(&self, message: String);

    /// Closes the connection, but not the call, if the caller can resume the stream.
    fn disconnect(&self) {}
}

/// The sender of a frame. It is also the client of unversioned requests, which can be asked nothing.
#[derive(Clone, Default)]
pub struct Caller {
    info: ClientInfo,
    peer: Option<Arc<dyn Peer>>,
    cancelled: Option<Arc<CancellationToken>>,
    disconnected: Option<Arc<CancellationToken>>,
    revoked: Option<Arc<CancellationToken>>,
    address: Option<IpAddr>,
    view: Option<Arc<str>>,
}

impl Caller {
    /// A caller with a unique name, if it is known, and the receiver of its messages.
    pub fn new(name: Option<Arc<str>>, peer: Option<Arc<dyn Peer>>) -> Self {
        let info = ClientInfo {
            name,
            ..ClientInfo::default()
        };
        Self {
            info,
            peer,
            ..Self::default()
        }
    }

    /// Returns the caller, whose calls the token `cancelled` cancels.
    #[must_use]
    pub fn with_cancellation(mut self, cancelled: Option<Arc<CancellationToken>>) -> Self {
        self.cancelled = cancelled;
        self
    }

    /// Returns the caller, which has disconnected when the token is cancelled. Before the modern era
    /// that does not cancel its calls.
    #[must_use]
    pub fn with_disconnect(mut self, token: Option<Arc<CancellationToken>>) -> Self {
        self.disconnected = token;
        self
    }

    /// Returns the caller, whose bearer token is revoked when `token` is cancelled.
    #[must_use]
    pub fn with_revocation(mut self, token: Option<Arc<CancellationToken>>) -> Self {
        self.revoked = token;
        self
    }

    /// Returns the caller, whose bearer token belongs to this principal. Its name is then that of the
    /// principal.
    #[must_use]
    pub fn with_principal(mut self, principal: Option<Arc<Principal>>) -> Self {
        if let Some(principal) = &principal {
            self.info.name = Some(Arc::clone(&principal.name));
        }
        self.info.principal = principal;
        self
    }

    /// Returns the caller, whose requests come from this address.
    #[must_use]
    pub fn with_address(mut self, address: impl Into<Option<IpAddr>>) -> Self {
        self.address = address.into();
        self
    }

    /// Returns the caller, which uses the view with this name. What belongs to it, such as a task, belongs to
    /// it in this view only.
    #[must_use]
    pub fn with_view(mut self, view: Option<Arc<str>>) -> Self {
        self.view = view;
        self
    }

    /// The name of its view; `None` for the server itself.
    pub(super) fn view(&self) -> Option<&Arc<str>> {
        self.view.as_ref()
    }

    /// The address that its requests come from; `None` over stdio.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Cancelled when its bearer token is revoked; `None` if it has none.
    pub(super) fn revocation(&self) -> Option<&Arc<CancellationToken>> {
        self.revoked.as_ref()
    }

    /// The token that cancels its calls.
    pub(super) fn cancellation(&self) -> Option<&CancellationToken> {
        self.cancelled.as_deref()
    }

    /// Its name, if it is known.
    pub(super) fn name(&self) -> Option<&Arc<str>> {
        self.info.name.as_ref()
    }

    /// The owner of its bearer token; `None` if it has none. Its name may then be the id of a session, which is
    /// a secret.
    pub(super) fn principal(&self) -> Option<&Arc<Principal>> {
        self.info.principal.as_ref()
    }

    /// Cancelled when the caller has disconnected and cannot resume its stream.
    pub(super) fn disconnection(&self) -> Option<&Arc<CancellationToken>> {
        self.disconnected.as_ref()
    }

    /// Completes when the caller has disconnected.
    pub(super) async fn disconnected(&self) {
        match &self.disconnected {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// True if messages can be sent to it.
    pub(super) fn has_peer(&self) -> bool {
        self.peer.is_some()
    }

    /// Sends an encoded notification; false if the caller has no peer.
    pub(super) fn send(&self, message: String) -> bool {
        let Some(peer) = &self.peer else { return false };
        peer.notify(message);
        true
    }
}

impl Client for Caller {
    fn info(&self) -> &ClientInfo {
        &self.info
    }

    fn notify(&self, message: String) {
        self.send(message);
    }

    fn disconnect(&self) {
        if let Some(peer) = &self.peer {
            peer.disconnect();
        }
    }
}
