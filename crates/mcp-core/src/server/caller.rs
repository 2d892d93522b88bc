//! The client that has sent a frame, as its transport knows it, and the receiver of messages to it.

use core::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use tokio_util::sync::CancellationToken;

use crate::tool::{ClientFacts, Principal};

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

/// The client that has sent a frame, as its transport knows it.
#[derive(Clone, Default)]
pub struct Caller {
    /// Facts about it.
    pub info: ClientFacts,
    /// The receiver of its messages.
    pub peer: Option<Arc<dyn Peer>>,
    /// Cancels its calls.
    pub cancelled: Option<Arc<CancellationToken>>,
    /// Cancelled when it has disconnected and cannot resume its stream. Before the modern era that does not cancel its
    /// calls.
    pub disconnected: Option<Arc<CancellationToken>>,
    /// Cancelled when its bearer token is revoked; `None` if it has none.
    pub revoked: Option<Arc<CancellationToken>>,
    /// The address that its requests come from; `None` over stdio.
    pub address: Option<IpAddr>,
    /// The headers of its request; `None` over stdio, and at a server that relays nothing.
    pub headers: Option<Arc<HeaderMap>>,
    /// The name of the view that it uses; `None` for the server itself. A task belongs to it in this view only.
    pub view: Option<Arc<str>>,
}

impl Caller {
    /// A caller with a unique name, if it is known, and the receiver of its messages.
    pub fn new(name: Option<Arc<str>>, peer: Option<Arc<dyn Peer>>) -> Self {
        let info = ClientFacts {
            name,
            ..ClientFacts::default()
        };
        Self {
            info,
            peer,
            ..Self::default()
        }
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

    pub(super) fn name(&self) -> Option<&Arc<str>> {
        self.info.name.as_ref()
    }

    /// The owner of its bearer token; `None` if it has none. Its name may then be the id of a session, which is
    /// a secret.
    pub(super) fn principal(&self) -> Option<&Arc<Principal>> {
        self.info.principal.as_ref()
    }

    /// Completes when the caller has disconnected.
    pub(super) async fn disconnected(&self) {
        match &self.disconnected {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Sends an encoded notification; false if the caller has no peer.
    pub(super) fn send(&self, message: String) -> bool {
        let Some(peer) = &self.peer else { return false };
        peer.notify(message);
        true
    }
}

/// Limit for the bytes of a name. Each session id has it.
const MAX_NAME_BYTES: usize = 40;

/// The name that a client gives itself, such as `claude-code`, or the start of it; empty if it gives none. Anybody can
/// give any name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientName(Arc<str>);

impl ClientName {
    /// The printable part of `text`, up to the limit.
    pub fn new(text: &str) -> Self {
        let printable = text.trim().chars().filter(|char| !char.is_control());
        let name: String = printable.collect();
        Self(name[..name.floor_char_boundary(MAX_NAME_BYTES)].into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_the_printable_start_of_a_text() {
        let long = "ä".repeat(30);
        for (text, expected) in [
            (" claude-code\n", "claude-code"),
            ("a\u{1b}[31mb", "a[31mb"),
            ("", ""),
            (&*long, &long[..40]),
        ] {
            assert_eq!(ClientName::new(text).as_str(), expected);
        }
    }
}
