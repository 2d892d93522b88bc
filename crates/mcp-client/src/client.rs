//! One connection to one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcp_core::jsonrpc::{ErrorObject, Id, Json, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::http::Http;
use crate::incoming::{Inbox, reply};
use crate::stdio::Stdio;
use crate::transport::Transport;
use crate::{Command, Endpoint, Error, FromServer, Options, outgoing};

/// What an answer may take unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An MCP client: one server, any number of requests at the same time.
///
/// Dropping it ends the connection; a child process is killed unless [`Client::close`] let it end
/// in peace.
pub struct Client {
    transport: Arc<Transport>,
    next_id: AtomicU64,
    timeout: Duration,
}

/// What a [`Client`] does by default, and where the server's own messages go.
#[must_use]
pub struct Builder {
    timeout: Duration,
    inbox: Inbox,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            timeout: TIMEOUT,
            inbox: Inbox::default(),
        }
    }
}

impl Builder {
    /// How long to wait for an answer; 30 s unless set.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Where the server's notifications and requests go. What finds the channel full is dropped
    /// (notifications) or refused (requests). Progress has [its own way](Options::progress).
    pub fn inbox(mut self, inbox: mpsc::Sender<FromServer>) -> Self {
        self.inbox = Inbox::to(inbox);
        self
    }

    /// A client of the server behind a URL. Connects when there is something to send.
    ///
    /// # Errors
    /// Those of [`tls::client_config`](crate::tls::client_config).
    pub fn http(self, endpoint: Endpoint) -> Result<Client, Error> {
        let http = Http::new(endpoint, self.inbox)?;
        Ok(Client::over(Transport::Http(http), self.timeout))
    }

    /// A client of a server that is started now.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when the program cannot be started; [`Error::Invalid`] outside of a
    /// Tokio runtime.
    pub fn stdio(self, command: Command) -> Result<Client, Error> {
        let stdio = Stdio::spawn(command, self.inbox)?;
        Ok(Client::over(Transport::Stdio(stdio), self.timeout))
    }
}

impl Client {
    /// How to make a client that differs from the default.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client of the server behind a URL; see [`Builder::http`].
    ///
    /// # Errors
    /// Those of [`Builder::http`].
    pub fn http(endpoint: Endpoint) -> Result<Self, Error> {
        Self::builder().http(endpoint)
    }

    /// A client of a server that is started now; see [`Builder::stdio`].
    ///
    /// # Errors
    /// Those of [`Builder::stdio`].
    pub fn stdio(command: Command) -> Result<Self, Error> {
        Self::builder().stdio(command)
    }

    fn over(transport: Transport, timeout: Duration) -> Self {
        Self {
            transport: Arc::new(transport),
            next_id: AtomicU64::new(1),
            timeout,
        }
    }

    /// Sends a request and waits for its result. `params` that serialise to `null` are left out.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn request(
        &self,
        method: &str,
        params: &(impl Serialize + Sync + ?Sized),
    ) -> Result<Box<RawValue>, Error> {
        self.request_with(method, params, Options::default()).await
    }

    /// Sends a request with a timeout of its own, or with progress reports. Dropping the future
    /// cancels the request at the server.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn request_with(
        &self,
        method: &str,
        params: &(impl Serialize + Sync + ?Sized),
        options: Options,
    ) -> Result<Box<RawValue>, Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let request = outgoing::request(id, method, params, options.progress.is_some())?;
        let mut cancel = CancelOnDrop {
            transport: &self.transport,
            // The specification forbids to cancel the handshake.
            id: (method != "initialize").then_some(id),
        };
        let exchange = self.transport.exchange(request, options.progress);
        let answer = self.in_time(options.timeout, exchange).await;
        if !matches!(answer, Err(Error::Timeout { .. })) {
            cancel.id = None;
        }
        answer
    }

    /// Sends a notification. Over HTTP it waits until the server has accepted it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn notify(
        &self,
        method: &str,
        params: &(impl Serialize + Sync + ?Sized),
    ) -> Result<(), Error> {
        let message = outgoing::notification(method, params)?;
        self.in_time(None, self.transport.send(message)).await
    }

    /// Answers a [request of the server](FromServer::Request).
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn respond(
        &self,
        id: &RawValue,
        outcome: Result<Json, ErrorObject>,
    ) -> Result<(), Error> {
        let message = reply(Response {
            id: Id::new(id),
            outcome,
        });
        self.in_time(None, self.transport.send(message)).await
    }

    /// Ends the session over HTTP. Ends a child process in peace: closes its stdin, waits, and only
    /// then sends signals. Requests that are still waiting fail with [`Error::Closed`] where the
    /// transport ends with them.
    pub async fn close(&self) {
        self.transport.close().await;
    }

    /// The server's name in errors and logs: the origin of its URL, or its program.
    pub fn peer(&self) -> &str {
        self.transport.peer()
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Reads an answer as the type that the specification gives it.
    pub(crate) fn read<T: DeserializeOwned>(
        &self,
        method: &str,
        raw: &RawValue,
    ) -> Result<T, Error> {
        serde_json::from_str(raw.get()).map_err(|error| {
            tracing::debug!(peer = self.peer(), method, %error, "answer of an unexpected shape");
            self.broken(format!("the answer to {method} has an unexpected shape"))
        })
    }

    pub(crate) fn broken(&self, fault: impl Into<String>) -> Error {
        Error::Protocol {
            peer: self.transport.peer().clone(),
            fault: fault.into(),
        }
    }

    async fn in_time<T>(
        &self,
        timeout: Option<Duration>,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let after = timeout.unwrap_or(self.timeout);
        let peer = self.transport.peer();
        tokio::time::timeout(after, work).await.unwrap_or_else(|_| {
            Err(Error::Timeout {
                peer: peer.clone(),
                after,
            })
        })
    }
}

/// Tells the server when nobody waits for a request any more.
struct CancelOnDrop<'a> {
    transport: &'a Transport,
    /// Of the request that is under way.
    id: Option<u64>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.transport
                .cancel(outgoing::cancelled(id, "no longer needed"));
        }
    }
}
