//! The two ways to a server, seen alike.

use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::http::Http;
use crate::outgoing::Outgoing;
use crate::stdio::Stdio;
use crate::{Error, Progress};

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

    /// Sends a request and waits for its answer.
    pub(crate) async fn exchange(
        &self,
        request: Outgoing,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<Box<RawValue>, Error> {
        match self {
            Self::Http(http) => http.exchange(request, progress).await,
            Self::Stdio(stdio) => stdio.exchange(request, progress).await,
        }
    }

    /// Sends what has no answer.
    pub(crate) async fn send(&self, message: String) -> Result<(), Error> {
        match self {
            Self::Http(http) => http.send(message).await,
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

    /// Ends the session, or the child process.
    pub(crate) async fn close(&self) {
        match self {
            Self::Http(http) => http.close().await,
            Self::Stdio(stdio) => stdio.close().await,
        }
    }
}
