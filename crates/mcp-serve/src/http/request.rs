//! One request, once its client is known.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{HeaderMap, Method, Uri};
use mcp_core::server::{Caller, Principal};
use parking_lot::Mutex;

use super::body;
use super::connections::ClientConnection;
use super::reply;
use super::stream_slots::Revocation;
use crate::tokens::Credential;

/// A request. As an extractor, which `admit` makes it, it has passed the checks in front of every path.
pub(super) struct HttpRequest {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    /// In a mutex that is never locked: others may refer to the request while they wait.
    body: Mutex<Body>,
    pub(super) connection: Arc<ClientConnection>,
    /// `None` where no token is required.
    pub(super) credential: Option<Arc<Credential>>,
    /// The view that its path names.
    pub(super) view: Option<Arc<str>>,
}

impl HttpRequest {
    /// A request that was not checked.
    pub(super) fn new(request: Request) -> Self {
        let (head, body) = request.into_parts();
        let connection = head.extensions.get::<Arc<ClientConnection>>();
        let connection = connection.cloned().unwrap_or_else(|| {
            let peer = head.extensions.get().map(SocketAddr::ip);
            let address = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            Arc::new(ClientConnection::new(address, false))
        });
        Self {
            method: head.method,
            uri: head.uri,
            headers: head.headers,
            body: Mutex::new(body),
            connection,
            credential: None,
            view: None,
        }
    }

    pub(super) fn body(&mut self) -> &mut Body {
        self.body.get_mut()
    }

    /// The owner of its token; `None` where no token is required.
    pub(super) fn principal(&self) -> Option<&Arc<Principal>> {
        let credential = self.credential.as_ref();
        credential.map(|credential| &credential.principal)
    }

    /// The owner of its sessions: its principal, which is empty where no token is required, in its view.
    pub(super) fn owner(&self) -> String {
        let principal = self.principal().map_or("", |principal| &principal.name);
        match &self.view {
            // No name has a line end.
            Some(view) => format!("{principal}\n{view}"),
            None => principal.to_owned(),
        }
    }

    /// The name by which limits are counted: that of its principal if tokens are required, else its address. A client
    /// with IPv6 has a whole network of 64 bits.
    pub(super) fn share(&self) -> String {
        if let Some(principal) = self.principal() {
            return principal.name.to_string();
        }
        match self.connection.address.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                format!("{}/64", Ipv6Addr::from_bits(network))
            }
        }
    }

    /// True once its token is not valid any more.
    pub(super) fn is_revoked(&self) -> bool {
        let credential = self.credential.as_ref();
        credential.is_some_and(|credential| credential.revoked.is_cancelled())
    }

    /// Returns the revocation of its token, which ends its streams.
    pub(super) fn revocation(&self) -> Revocation {
        let credential = self.credential.as_ref();
        Revocation::new(credential.map(|credential| (*credential.revoked).clone()))
    }

    /// Completes the client of a call with what is known of it here.
    pub(super) fn identified(&self, caller: Caller) -> Caller {
        let credential = self.credential.as_ref();
        caller
            .with_principal(self.principal().cloned())
            .with_view(self.view.clone())
            .with_address(self.connection.address)
            .with_revocation(credential.map(|credential| Arc::clone(&credential.revoked)))
    }

    /// Completes the response to a request whose body was not read: unless that has arrived, it announces the end of
    /// the connection. Otherwise a client would send its next request into a closed connection.
    pub(super) fn unread(mut self, mut response: Response) -> Response {
        if !body::has_arrived(self.body.get_mut(), &self.headers) {
            reply::end_connection(&mut response);
            self.connection.set_sending();
        }
        response
    }
}
