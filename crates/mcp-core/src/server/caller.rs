//! The sender of a frame, as far as its transport knows.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::tool::{Client, ClientInfo};

/// Where messages to the caller go while its call is still being answered.
///
/// The transports implement it: an HTTP reply becomes a stream with the first message, stdio writes
/// a line.
pub trait Peer: Send + Sync {
    /// Hands over one encoded notification, without a newline. Never blocks: a peer that does not
    /// read loses notifications, not the call.
    fn notify(&self, message: String);

    /// Closes the connection, but not the call: the caller comes back for the rest. Does nothing
    /// where it could not.
    fn disconnect(&self) {}
}

/// The sender of a frame. In the unversioned era it is all that is known of a client, and can be asked
/// nothing: unversioned requests have no way back.
#[derive(Default)]
pub struct Caller {
    info: ClientInfo,
    peer: Option<Arc<dyn Peer>>,
    cancelled: Option<CancellationToken>,
    left: Option<CancellationToken>,
}

impl Caller {
    /// A caller with a name that no other caller has, where one is known, and the way back to it.
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

    /// The same caller, whose calls end early when `cancelled` is.
    #[must_use]
    pub fn with_cancellation(self, cancelled: impl Into<Option<CancellationToken>>) -> Self {
        Self {
            cancelled: cancelled.into(),
            ..self
        }
    }

    /// The same caller, who reads no more once `left` is cancelled. Before the modern era that gives
    /// nothing up.
    #[must_use]
    pub fn with_disconnect(self, left: impl Into<Option<CancellationToken>>) -> Self {
        Self {
            left: left.into(),
            ..self
        }
    }

    /// Cancels its calls; `None` if nothing can.
    pub(super) fn cancellation(&self) -> Option<&CancellationToken> {
        self.cancelled.as_ref()
    }

    /// Its name, where that is known.
    pub(super) fn name(&self) -> Option<&Arc<str>> {
        self.info.name.as_ref()
    }

    /// Completes when nobody waits for the answer any more.
    pub(super) async fn left(&self) {
        match &self.left {
            Some(left) => left.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// True if a message has a way to it.
    pub(super) fn can_listen(&self) -> bool {
        self.peer.is_some()
    }

    /// Sends an encoded notification; false if there is no way back.
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
