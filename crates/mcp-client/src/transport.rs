//! Dispatches to the transport of a connection: HTTP or stdio.

use std::sync::Arc;

use mcp_core::trace::PeerAddress;
use serde_json::value::RawValue;

use crate::Error;
use crate::http::{HeaderList, Http};
use crate::outgoing::Outgoing;
use crate::response_routes::ResponseRoutes;
use crate::stdio::Stdio;

/// A transport to one server.
pub(crate) enum Transport {
    Http(Http),
    /// Also HTTP+SSE, which is used in the same way.
    Stdio(Stdio),
}

impl Transport {
    pub(crate) fn peer(&self) -> &Arc<str> {
        match self {
            Self::Http(http) => http.peer(),
            Self::Stdio(stdio) => stdio.peer(),
        }
    }

    /// The address of a server over HTTP.
    pub(crate) fn address(&self) -> Option<PeerAddress<'_>> {
        match self {
            Self::Http(http) => http.address(),
            Self::Stdio(_) => None,
        }
    }

    /// The child's process id, as long as it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Self::Http(_) => None,
            Self::Stdio(stdio) => stdio.pid(),
        }
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn exchange(
        &self,
        request: Outgoing<'_>,
        routes: Arc<ResponseRoutes>,
    ) -> Result<Box<RawValue>, Error> {
        match self {
            Self::Http(http) => http.exchange(request, routes).await,
            Self::Stdio(stdio) => stdio.exchange(request, routes).await,
        }
    }

    /// Sends a message without a response.
    pub(crate) async fn send(&self, message: String, headers: HeaderList) -> Result<(), Error> {
        match self {
            Self::Http(http) => http.send(message, headers).await,
            Self::Stdio(stdio) => stdio.send(message).await,
        }
    }

    /// Sends a cancellation without waiting; best effort.
    pub(crate) fn cancel(&self, message: String) {
        match self {
            Self::Http(http) => http.cancel(message),
            Self::Stdio(stdio) => stdio.cancel(message),
        }
    }

    /// Sets the revision of a legacy handshake; `None` ends the session of the last one.
    pub(crate) fn set_revision(&self, revision: Option<&'static str>) {
        if let Self::Http(http) = self {
            http.set_revision(revision);
        }
    }

    /// Waits until a child has ended, or the connection was closed; returns the reason.
    pub(crate) async fn closed(&self) -> String {
        match self {
            Self::Http(http) => http.closed().await,
            Self::Stdio(stdio) => stdio.closed().await,
        }
    }

    /// Ends the session, or the child process.
    pub(crate) async fn close(&self) {
        match self {
            Self::Http(http) => http.close().await,
            Self::Stdio(stdio) => stdio.close().await,
        }
    }
}
