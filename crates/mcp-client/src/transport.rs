//! The two ways to a server, seen alike.

use serde_json::value::RawValue;

use crate::Error;
use crate::http::{Fields, Http};
use crate::outgoing::Outgoing;
use crate::sink::Sink;
use crate::stdio::Stdio;

/// A way to one server.
pub(crate) enum Transport {
    Http(Http),
    Stdio(Stdio),
}

impl Transport {
    /// The server's name in errors and logs.
    pub(crate) fn peer(&self) -> &std::sync::Arc<str> {
        match self {
            Self::Http(http) => http.peer(),
            Self::Stdio(stdio) => stdio.peer(),
        }
    }

    /// The child's process id, as long as it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Self::Http(_) => None,
            Self::Stdio(stdio) => stdio.pid(),
        }
    }

    /// Sends a request and waits for its answer; `sink` takes what belongs to it.
    pub(crate) async fn exchange(
        &self,
        request: Outgoing,
        sink: Sink,
    ) -> Result<Box<RawValue>, Error> {
        match self {
            Self::Http(http) => http.exchange(request, sink).await,
            Self::Stdio(stdio) => stdio.exchange(request, sink).await,
        }
    }

    /// Sends what has no answer.
    pub(crate) async fn send(&self, message: String, headers: Fields) -> Result<(), Error> {
        match self {
            Self::Http(http) => http.send(message, headers).await,
            Self::Stdio(stdio) => stdio.send(message).await,
        }
    }

    /// Tells the server that nobody waits for a request any more. Does not wait, and a server that
    /// cannot be told finds out by itself.
    pub(crate) fn cancel(&self, message: String) {
        match self {
            Self::Http(http) => http.cancel(message),
            Self::Stdio(stdio) => stdio.cancel(message),
        }
    }

    /// Starts from nothing, for a new handshake.
    pub(crate) fn forget_session(&self) {
        if let Self::Http(http) = self {
            http.forget_session();
        }
    }

    /// The revision that the handshake ended with.
    pub(crate) fn agree_on(&self, revision: &'static str) {
        if let Self::Http(http) = self {
            http.agree_on(revision);
        }
    }

    /// Waits until a child has ended, or the connection was closed; says why.
    pub(crate) async fn ended(&self) -> String {
        match self {
            Self::Http(http) => http.ended().await,
            Self::Stdio(stdio) => stdio.ended().await,
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
